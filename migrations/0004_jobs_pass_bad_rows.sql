CREATE TABLE `kept_later` (
	`bundle_id` integer PRIMARY KEY NOT NULL,
	`look_at` integer NOT NULL,
	`begun` text
);
--> statement-breakpoint
CREATE INDEX `kept_later_due` ON `kept_later` (`look_at`);--> statement-breakpoint
CREATE TABLE `unreadable_bundles` (
	`bundle_id` integer PRIMARY KEY NOT NULL,
	`fault` text NOT NULL,
	`found_at` integer NOT NULL,
	`checked_at` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `unreadable_bundles_checked` ON `unreadable_bundles` (`checked_at`);--> statement-breakpoint
ALTER TABLE `erasures` ADD `unreadable` text DEFAULT '[]' NOT NULL;--> statement-breakpoint
CREATE INDEX `event_types_kept_changed` ON `event_types` (`updated_at`) WHERE retention_days IS NOT NULL;--> statement-breakpoint
CREATE INDEX `tenant_settings_kept_changed` ON `tenant_settings` (`updated_at`) WHERE retention_days IS NOT NULL OR payload_free = 1;
--> statement-breakpoint
DROP TRIGGER `bundles_untagged`;
--> statement-breakpoint
CREATE TRIGGER `bundles_untagged` AFTER DELETE ON `bundles`
WHEN iif(json_valid(old.`header`), json_type(old.`header`, '$.tags'), NULL) = 'array' BEGIN
	DELETE FROM `tags` WHERE (`tenant`, `tag`, `bundle_id`) IN (
		SELECT old.`header` ->> ('$.tenants[' || (t.value ->> 0) || ']'), t.value ->> 1, old.`id`
		FROM json_each(old.`header`, '$.tags') t WHERE t.type = 'array');
END;
