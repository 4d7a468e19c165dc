-- What people say of a tool, apart from its versions, as JSON.
CREATE TABLE tool_cards (
  tool TEXT NOT NULL PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;
