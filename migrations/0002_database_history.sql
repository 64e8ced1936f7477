CREATE TABLE `database_history` (
	`since` integer PRIMARY KEY NOT NULL,
	`count` integer NOT NULL
);
