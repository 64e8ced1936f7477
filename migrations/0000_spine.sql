CREATE TABLE `api_keys` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text,
	`tenant` text,
	`scopes` text NOT NULL,
	`hash` text NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer,
	`last_used_at` integer,
	`revoked_at` integer
);
--> statement-breakpoint
CREATE INDEX `api_keys_standing` ON `api_keys` (`id`) WHERE revoked_at IS NULL;--> statement-breakpoint
CREATE INDEX `api_keys_by_tenant` ON `api_keys` (`tenant`,`id`) WHERE revoked_at IS NULL;
--> statement-breakpoint
CREATE TABLE `backlog_looks` (
	`at` integer PRIMARY KEY NOT NULL,
	`backlogs` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `counts` (
	`name` text PRIMARY KEY NOT NULL,
	`count` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `cursors` (
	`name` text PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`event_id` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `deliveries` (
	`destination_id` text NOT NULL,
	`event_id` integer NOT NULL,
	`state` text NOT NULL,
	`because` text,
	`attempts` integer DEFAULT 0 NOT NULL,
	`next_attempt_at` integer,
	`life` integer DEFAULT 0 NOT NULL,
	`first_attempt_at` integer,
	`give_up_at` integer NOT NULL,
	`ended_at` integer,
	`last_status` integer,
	`last_error` text,
	`replay` text,
	`log` text DEFAULT '[]' NOT NULL,
	PRIMARY KEY(`destination_id`, `event_id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `deliveries_retrying` ON `deliveries` (`next_attempt_at`) WHERE state = 'retrying';--> statement-breakpoint
CREATE INDEX `deliveries_waiting` ON `deliveries` (`destination_id`,`event_id`,`attempts`) WHERE state = 'waiting';--> statement-breakpoint
CREATE INDEX `deliveries_dead` ON `deliveries` (`destination_id`,`event_id`) WHERE state = 'dead';--> statement-breakpoint
CREATE TABLE `destinations` (
	`id` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`url` text NOT NULL,
	`event_types` text,
	`description` text,
	`metadata` text,
	`headers` text,
	`filter` text,
	`secret` text NOT NULL,
	`secret_version` integer DEFAULT 1 NOT NULL,
	`previous_secrets` text,
	`status` text DEFAULT 'active' NOT NULL,
	`status_reason` text,
	`status_changed_at` integer,
	`max_concurrency` integer DEFAULT 10 NOT NULL,
	`rate_per_second` real DEFAULT 100 NOT NULL,
	`rate_burst` integer,
	`timeout_ms` integer DEFAULT 15000 NOT NULL,
	`retry` text,
	`breaker_failure_ratio` real DEFAULT 0.5 NOT NULL,
	`breaker_min_attempts` integer DEFAULT 5 NOT NULL,
	`breaker_window_s` integer DEFAULT 60 NOT NULL,
	`breaker_cooldown_s` integer DEFAULT 30 NOT NULL,
	`breaker_max_cooldown_s` integer DEFAULT 45 NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted_at` integer
);
--> statement-breakpoint
CREATE INDEX `destinations_by_tenant` ON `destinations` (`tenant`,`id`) WHERE deleted_at IS NULL;--> statement-breakpoint
CREATE INDEX `destinations_ever_of_tenant` ON `destinations` (`tenant`,`id`);--> statement-breakpoint
CREATE INDEX `destinations_deleted` ON `destinations` (`deleted_at`) WHERE deleted_at IS NOT NULL;--> statement-breakpoint
CREATE TABLE `events` (
	`id` integer PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`type` text NOT NULL,
	`accepted_at` integer NOT NULL,
	`idempotency_key` text,
	`fingerprint` text,
	`deliver_at` integer,
	`plan` text NOT NULL,
	`body` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `events_by_idempotency_key` ON `events` (`tenant`,`idempotency_key`) WHERE idempotency_key IS NOT NULL;--> statement-breakpoint
CREATE INDEX `events_scheduled` ON `events` (`deliver_at`) WHERE deliver_at IS NOT NULL;--> statement-breakpoint
CREATE TABLE `mails` (
	`about` text PRIMARY KEY NOT NULL,
	`sent_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `replays` (
	`id` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`destination_id` text NOT NULL,
	`include` text NOT NULL,
	`event_types` text,
	`since` integer NOT NULL,
	`until` integer NOT NULL,
	`rate_per_minute` integer NOT NULL,
	`state` text NOT NULL,
	`because` text,
	`cursor` integer DEFAULT 0 NOT NULL,
	`total` integer DEFAULT 0 NOT NULL,
	`moved` integer DEFAULT 0 NOT NULL,
	`delivered` integer DEFAULT 0 NOT NULL,
	`failed` integer DEFAULT 0 NOT NULL,
	`pace` real NOT NULL,
	`next_step_at` integer NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`ended_at` integer
);
--> statement-breakpoint
CREATE UNIQUE INDEX `replays_under_way` ON `replays` (`destination_id`) WHERE state IN ('running', 'paused');--> statement-breakpoint
CREATE INDEX `replays_by_tenant` ON `replays` (`tenant`);--> statement-breakpoint
CREATE INDEX `replays_by_destination` ON `replays` (`destination_id`);--> statement-breakpoint
CREATE TABLE `sessions` (
	`id` text PRIMARY KEY NOT NULL,
	`key_id` text,
	`tenant` text,
	`scopes` text NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`ended_at` integer
);
--> statement-breakpoint
CREATE INDEX `sessions_by_expiry` ON `sessions` (`expires_at`);--> statement-breakpoint
CREATE TABLE `status_changes` (
	`changed_at` integer NOT NULL,
	`destination_id` text NOT NULL,
	`status` text NOT NULL,
	`reason` text,
	`tenant` text NOT NULL,
	`url` text NOT NULL,
	PRIMARY KEY(`changed_at`, `destination_id`, `status`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TRIGGER `destinations_status_changed` AFTER UPDATE OF `status_changed_at` ON `destinations`
WHEN new.status <> old.status
BEGIN
	INSERT OR IGNORE INTO status_changes (changed_at, destination_id, status, reason, tenant, url)
	VALUES (new.status_changed_at, new.id, new.status, new.status_reason, new.tenant, new.url);
END;
--> statement-breakpoint
CREATE TABLE `sweeps` (
	`id` integer PRIMARY KEY NOT NULL,
	`watermark` integer DEFAULT 0 NOT NULL,
	`heartbeat_at` integer NOT NULL,
	`lease` text,
	`leased_until` integer DEFAULT 0 NOT NULL,
	`page` integer DEFAULT 0 NOT NULL,
	`parts` text DEFAULT '{}' NOT NULL
);
