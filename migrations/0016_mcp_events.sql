ALTER TABLE `destinations` ADD `expires_at` integer;--> statement-breakpoint
ALTER TABLE `destinations` ADD `subscriber` text;--> statement-breakpoint
ALTER TABLE `destinations` ADD `event_cursor` text;--> statement-breakpoint
CREATE INDEX `destinations_expiring` ON `destinations` (`expires_at`) WHERE expires_at IS NOT NULL AND deleted_at IS NULL;--> statement-breakpoint
CREATE INDEX `destinations_by_subscriber` ON `destinations` (`subscriber`) WHERE subscriber IS NOT NULL AND deleted_at IS NULL;--> statement-breakpoint
DROP TRIGGER `destinations_changed`;
--> statement-breakpoint
CREATE TRIGGER `destinations_changed` AFTER UPDATE OF `id`, `tenant`, `event_types`, `filter`, `channels`, `body`, `deleted_at`, `expires_at` ON `destinations` BEGIN
	INSERT INTO `tenants` (`id`, `revision`)
	VALUES (old.`tenant`, CAST(unixepoch('subsec') * 1000 AS INTEGER)), (new.`tenant`, CAST(unixepoch('subsec') * 1000 AS INTEGER))
	ON CONFLICT (`id`) DO UPDATE SET `revision` = max(`revision` + 1, excluded.`revision`);
END;
--> statement-breakpoint
CREATE TRIGGER `api_keys_end_subscriptions` AFTER UPDATE OF `revoked_at` ON `api_keys` WHEN new.`revoked_at` IS NOT NULL BEGIN
	UPDATE `destinations` SET `expires_at` = new.`revoked_at`
	WHERE `subscriber` = new.`id` AND `deleted_at` IS NULL AND `expires_at` > new.`revoked_at`;
END;
--> statement-breakpoint
CREATE TRIGGER `sessions_end_subscriptions` AFTER UPDATE OF `ended_at` ON `sessions` WHEN new.`ended_at` IS NOT NULL BEGIN
	UPDATE `destinations` SET `expires_at` = new.`ended_at`
	WHERE `subscriber` = new.`id` AND `deleted_at` IS NULL AND `expires_at` > new.`ended_at`;
END;
