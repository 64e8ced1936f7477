CREATE TABLE `shared_hosts` (
	`most` integer PRIMARY KEY NOT NULL,
	`counted_at` integer NOT NULL,
	`hosts` text NOT NULL
);
