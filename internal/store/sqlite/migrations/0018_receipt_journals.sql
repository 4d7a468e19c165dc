-- How far the receipts that a process has in its journal are in the chain.
CREATE TABLE receipt_journals (
	journal TEXT PRIMARY KEY,
	entry   INTEGER NOT NULL
) STRICT;
