CREATE TABLE `deliveries` (
	`destination_id` text NOT NULL,
	`event_id` integer NOT NULL,
	`state` text NOT NULL,
	`because` text,
	`attempts` integer DEFAULT 0 NOT NULL,
	`next_attempt_at` integer,
	`give_up_at` integer NOT NULL,
	`ended_at` integer,
	`last_status` integer,
	`last_error` text,
	`log` text DEFAULT '[]' NOT NULL,
	PRIMARY KEY(`destination_id`, `event_id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `deliveries_retrying` ON `deliveries` (`next_attempt_at`) WHERE state = 'retrying';--> statement-breakpoint
CREATE INDEX `deliveries_waiting` ON `deliveries` (`destination_id`,`event_id`) WHERE state = 'waiting';--> statement-breakpoint
CREATE INDEX `deliveries_dead` ON `deliveries` (`destination_id`,`event_id`) WHERE state = 'dead';--> statement-breakpoint
CREATE TABLE `destinations` (
	`id` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`url` text NOT NULL,
	`event_types` text,
	`description` text,
	`metadata` text,
	`headers` text,
	`secret` text NOT NULL,
	`status` text DEFAULT 'active' NOT NULL,
	`status_reason` text,
	`max_concurrency` integer DEFAULT 10 NOT NULL,
	`rate_per_second` real DEFAULT 100 NOT NULL,
	`rate_burst` integer DEFAULT 200 NOT NULL,
	`timeout_ms` integer DEFAULT 15000 NOT NULL,
	`retry` text,
	`breaker_failure_ratio` real DEFAULT 0.5 NOT NULL,
	`breaker_min_attempts` integer DEFAULT 5 NOT NULL,
	`breaker_window_s` integer DEFAULT 60 NOT NULL,
	`breaker_cooldown_s` integer DEFAULT 30 NOT NULL,
	`breaker_max_cooldown_s` integer DEFAULT 300 NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted_at` integer
);
--> statement-breakpoint
CREATE INDEX `destinations_by_tenant` ON `destinations` (`tenant`) WHERE deleted_at IS NULL;--> statement-breakpoint
CREATE TABLE `events` (
	`id` integer PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`type` text NOT NULL,
	`accepted_at` integer NOT NULL,
	`plan` text NOT NULL,
	`body` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `sweeps` (
	`id` integer PRIMARY KEY NOT NULL,
	`watermark` integer DEFAULT 0 NOT NULL,
	`heartbeat_at` integer NOT NULL
);
