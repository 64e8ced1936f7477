ALTER TABLE `destinations` ADD `sealed_headers` text;--> statement-breakpoint
ALTER TABLE `destinations` ADD `auth` text;