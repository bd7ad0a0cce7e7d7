package database

// version is the version of the schema, stored as user_version. application marks our files among SQLite
// databases.
const (
	version     = 1
	application = 0x626f7479 // boty
)

// schema: a task is its document, as in issues.jsonl, and Bothy reads all other values from there. The
// columns and views behind the document are for people with the sqlite3 program.
const schema = `
CREATE TABLE tasks (
	project  TEXT NOT NULL, -- a directory, by its real path
	id       TEXT NOT NULL,
	document TEXT NOT NULL,
	title            TEXT AS (document ->> '$.title'),
	status           TEXT AS (document ->> '$.status'),
	priority         INTEGER AS (document ->> '$.priority'),
	issue_type       TEXT AS (document ->> '$.issue_type'),
	assignee         TEXT AS (document ->> '$.assignee'),
	created_at       TEXT AS (document ->> '$.created_at'),
	updated_at       TEXT AS (document ->> '$.updated_at'),
	closed_at        TEXT AS (document ->> '$.closed_at'),
	lease_expires_at TEXT AS (document ->> '$.lease_expires_at'),
	PRIMARY KEY (project, id)
);
CREATE VIEW dependencies AS
	SELECT project, tasks.id AS id, d.value ->> '$.depends_on_id' AS depends_on, d.value ->> '$.type' AS type
	FROM tasks, json_each(document, '$.dependencies') AS d;
CREATE VIEW labels AS
	SELECT project, tasks.id AS id, l.value AS label FROM tasks, json_each(document, '$.labels') AS l;
CREATE VIEW comments AS
	SELECT project, tasks.id AS id, c.value ->> '$.author' AS author, c.value ->> '$.text' AS text, c.value ->> '$.created_at' AS created_at
	FROM tasks, json_each(document, '$.comments') AS c;
`
