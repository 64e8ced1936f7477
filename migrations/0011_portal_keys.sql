ALTER TABLE `api_keys` ADD `made_in` text;--> statement-breakpoint
CREATE INDEX `api_keys_by_destination` ON `api_keys` (`destination`,`id`) WHERE destination IS NOT NULL AND revoked_at IS NULL;