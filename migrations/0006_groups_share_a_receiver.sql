CREATE TABLE `groups` (
	`name` text PRIMARY KEY NOT NULL,
	`max_concurrency` integer,
	`rate_per_second` real,
	`rate_burst` integer,
	`breaker_failure_ratio` real,
	`breaker_min_attempts` integer,
	`breaker_window_s` integer,
	`breaker_cooldown_s` integer,
	`breaker_max_cooldown_s` integer,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL
);
--> statement-breakpoint
ALTER TABLE `destinations` ADD `group_name` text;--> statement-breakpoint
CREATE INDEX `destinations_by_group` ON `destinations` (`group_name`) WHERE group_name IS NOT NULL AND deleted_at IS NULL;