CREATE TABLE `key_changes` (
	`revision` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`key_id` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `key_changes_by_key` ON `key_changes` (`key_id`);
--> statement-breakpoint
CREATE TRIGGER `api_keys_added` AFTER INSERT ON `api_keys` BEGIN
	DELETE FROM `key_changes` WHERE `key_id` = new.`id`;
	INSERT INTO `key_changes` (`key_id`) VALUES (new.`id`);
END;
--> statement-breakpoint
CREATE TRIGGER `api_keys_changed` AFTER UPDATE OF `id`, `tenant`, `scopes`, `hash`, `expires_at`, `revoked_at` ON `api_keys` BEGIN
	DELETE FROM `key_changes` WHERE `key_id` IN (old.`id`, new.`id`);
	INSERT INTO `key_changes` (`key_id`) SELECT old.`id` UNION SELECT new.`id`;
END;
--> statement-breakpoint
CREATE TRIGGER `api_keys_removed` AFTER DELETE ON `api_keys` BEGIN
	DELETE FROM `key_changes` WHERE `key_id` = old.`id`;
	INSERT INTO `key_changes` (`key_id`) VALUES (old.`id`);
END;
