// Package search ranks tools for agents: given a sentence that says what is
// wanted, it finds the tools whose names, descriptions and parameters say the
// same. Start at [Index]: [Index.Put] adds tools, [Index.Search] ranks them.
//
//	Document ─ analyse ─▶ weighted terms ─ Put ─▶ postings ◀─ Search ─ terms ◀─ parse ─ query
//
// The ranking is BM25 over one bag of terms in which a name counts more than
// prose (see sections in document.go). The package bench measures it.
//
// A [Learner] learns from use which tools answer which searches: the words of a search
// after which a call ended well raise the tool that was called, for like words. What is
// learned stays in a team, fades with time, and one caller alone moves others little.
package search
