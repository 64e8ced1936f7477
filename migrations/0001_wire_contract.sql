CREATE TABLE `applications` (
	`id` text PRIMARY KEY NOT NULL,
	`uid` text,
	`name` text NOT NULL,
	`rate_per_second` real,
	`metadata` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `applications_by_uid` ON `applications` (`uid`) WHERE uid IS NOT NULL;--> statement-breakpoint
CREATE TABLE `audit_entries` (
	`id` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`tenant` text,
	`actor` text NOT NULL,
	`action` text NOT NULL,
	`subject` text NOT NULL,
	`changes` text
);
--> statement-breakpoint
CREATE INDEX `audit_entries_by_tenant` ON `audit_entries` (`tenant`,`id`);--> statement-breakpoint
CREATE INDEX `audit_entries_by_subject` ON `audit_entries` (`subject`,`id`);--> statement-breakpoint
CREATE TABLE `erasures` (
	`id` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`kind` text NOT NULL,
	`event_id` integer,
	`since` integer,
	`until` integer,
	`state` text NOT NULL,
	`cursor` text DEFAULT '[]' NOT NULL,
	`events` integer DEFAULT 0 NOT NULL,
	`deliveries` integer DEFAULT 0 NOT NULL,
	`cancelled` integer DEFAULT 0 NOT NULL,
	`next_step_at` integer NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`ended_at` integer
);
--> statement-breakpoint
CREATE INDEX `erasures_by_tenant` ON `erasures` (`tenant`);--> statement-breakpoint
CREATE INDEX `erasures_running` ON `erasures` (`next_step_at`) WHERE state = 'running';--> statement-breakpoint
CREATE TABLE `event_types` (
	`name` text PRIMARY KEY NOT NULL,
	`description` text,
	`schema` text,
	`example` text,
	`validates` integer NOT NULL,
	`archived_at` integer,
	`retention_days` integer,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `event_types_validating` ON `event_types` (`name`) WHERE validates = 1;--> statement-breakpoint
CREATE INDEX `event_types_kept` ON `event_types` (`retention_days`) WHERE retention_days IS NOT NULL;--> statement-breakpoint
CREATE TABLE `tags` (
	`tenant` text NOT NULL,
	`tag` text NOT NULL,
	`bundle_id` integer NOT NULL,
	PRIMARY KEY(`tenant`, `tag`, `bundle_id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `tenant_settings` (
	`tenant` text PRIMARY KEY NOT NULL,
	`contact_email` text,
	`retention_days` integer,
	`payload_free` integer DEFAULT 0 NOT NULL,
	`portal` text,
	`branding` text,
	`deleted_at` integer,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `tenant_settings_kept` ON `tenant_settings` (`retention_days`) WHERE retention_days IS NOT NULL;--> statement-breakpoint
CREATE INDEX `tenant_settings_payload_free` ON `tenant_settings` (`tenant`) WHERE payload_free = 1;--> statement-breakpoint
ALTER TABLE `destinations` ADD `sealed_headers` text;--> statement-breakpoint
ALTER TABLE `destinations` ADD `auth` text;--> statement-breakpoint
ALTER TABLE `destinations` ADD `body` text DEFAULT 'envelope' NOT NULL;--> statement-breakpoint
ALTER TABLE `destinations` ADD `template` text;--> statement-breakpoint
ALTER TABLE `destinations` ADD `channels` text;--> statement-breakpoint
ALTER TABLE `destinations` ADD `signature_forms` text;--> statement-breakpoint
ALTER TABLE `destinations` ADD `target_token` text;--> statement-breakpoint
ALTER TABLE `destinations` ADD `uid` text;--> statement-breakpoint
CREATE UNIQUE INDEX `destinations_by_uid` ON `destinations` (`tenant`,`uid`) WHERE uid IS NOT NULL AND deleted_at IS NULL;--> statement-breakpoint
ALTER TABLE `replays` ADD `tag` text;--> statement-breakpoint
ALTER TABLE `replays` ADD `matching` integer DEFAULT 1 NOT NULL;--> statement-breakpoint
ALTER TABLE `sessions` ADD `portal` text;
--> statement-breakpoint
DROP TRIGGER `destinations_changed`;
--> statement-breakpoint
CREATE TRIGGER `destinations_changed` AFTER UPDATE OF `id`, `tenant`, `event_types`, `filter`, `channels`, `body`, `deleted_at` ON `destinations` BEGIN
	INSERT INTO `tenants` (`id`, `revision`)
	VALUES (old.`tenant`, CAST(unixepoch('subsec') * 1000 AS INTEGER)), (new.`tenant`, CAST(unixepoch('subsec') * 1000 AS INTEGER))
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
--> statement-breakpoint
CREATE TRIGGER `bundles_tagged` AFTER INSERT ON `bundles` WHEN new.`header` -> '$.tags' IS NOT NULL BEGIN
	INSERT OR IGNORE INTO `tags` (`tenant`, `tag`, `bundle_id`)
	SELECT new.`header` ->> ('$.tenants[' || (t.value ->> 0) || ']'), t.value ->> 1, new.`id`
	FROM json_each(new.`header`, '$.tags') t;
END;
--> statement-breakpoint
CREATE TRIGGER `bundles_untagged` AFTER DELETE ON `bundles` WHEN old.`header` -> '$.tags' IS NOT NULL BEGIN
	DELETE FROM `tags` WHERE (`tenant`, `tag`, `bundle_id`) IN (
		SELECT old.`header` ->> ('$.tenants[' || (t.value ->> 0) || ']'), t.value ->> 1, old.`id`
		FROM json_each(old.`header`, '$.tags') t);
END;
--> statement-breakpoint
CREATE TRIGGER `event_types_replaced` BEFORE INSERT ON `event_types`
WHEN EXISTS (SELECT 1 FROM `event_types` WHERE `name` = new.`name` AND `validates` = 1) BEGIN
	INSERT INTO `tenants` (`id`, `revision`) VALUES ('', CAST(unixepoch('subsec') * 1000 AS INTEGER))
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
--> statement-breakpoint
CREATE TRIGGER `event_types_added` AFTER INSERT ON `event_types` WHEN new.`validates` = 1 BEGIN
	INSERT INTO `tenants` (`id`, `revision`) VALUES ('', CAST(unixepoch('subsec') * 1000 AS INTEGER))
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
--> statement-breakpoint
CREATE TRIGGER `event_types_changed` AFTER UPDATE OF `name`, `schema`, `validates` ON `event_types`
WHEN old.`validates` = 1 OR new.`validates` = 1 BEGIN
	INSERT INTO `tenants` (`id`, `revision`) VALUES ('', CAST(unixepoch('subsec') * 1000 AS INTEGER))
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
--> statement-breakpoint
CREATE TRIGGER `event_types_removed` AFTER DELETE ON `event_types` WHEN old.`validates` = 1 BEGIN
	INSERT INTO `tenants` (`id`, `revision`) VALUES ('', CAST(unixepoch('subsec') * 1000 AS INTEGER))
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
--> statement-breakpoint
CREATE TRIGGER `audit_entries_final` BEFORE UPDATE ON `audit_entries` BEGIN
	SELECT RAISE(ABORT, 'an audit entry is never changed');
END;
