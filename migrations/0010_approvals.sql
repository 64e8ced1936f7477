CREATE TABLE `agent_actions` (
	`id` text PRIMARY KEY NOT NULL,
	`tenant` text,
	`key_id` text,
	`session_id` text,
	`tool` text NOT NULL,
	`input` text NOT NULL,
	`state` text NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`decided_at` integer,
	`outcome` text
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `agent_actions_by_tenant` ON `agent_actions` (`tenant`,`created_at`);--> statement-breakpoint
CREATE INDEX `agent_actions_by_time` ON `agent_actions` (`created_at`);--> statement-breakpoint
CREATE INDEX `agent_actions_pending` ON `agent_actions` (`tenant`,`expires_at`) WHERE state = 'pending';--> statement-breakpoint
ALTER TABLE `api_keys` ADD `confirm` text;