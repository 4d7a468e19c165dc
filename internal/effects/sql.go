package effects

import (
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// maxText is the longest text that is read, and maxEffects the most effects
// that are told of one, before it counts as unknown.
const (
	maxText       = 256 << 10
	sqlMaxEffects = 200
	// maxFillers is how far a table can be from its verb, in words, and maxList
	// the most tables of one list.
	maxFillers = 64
	maxList    = 64
)

var (
	// verbs begin a statement that this package understands.
	verbs = []string{
		"select", "insert", "update", "delete", "replace", "merge", "drop", "truncate", "alter", "create", "rename",
		"grant", "revoke", "values", "table", "show", "describe", "desc", "explain", "begin", "start", "commit", "rollback", "savepoint", "release", "end",
		"analyze", "vacuum", "reindex", "comment", "with", "use", "set",
	}
	// changing verbs count wherever they stand: in a CTE, behind EXPLAIN
	// ANALYZE, in the body of a trigger.
	changing = []string{"insert", "update", "delete", "replace", "merge", "drop", "truncate", "alter", "create", "grant", "revoke"}
	// functions are verbs that are names of functions too.
	functions = []string{"replace", "insert", "truncate"}
	// escapes run what cannot be read here, or reach beyond the tables.
	escapes = []string{
		"execute", "exec", "call", "do", "prepare", "copy", "load", "attach", "handler", "import", "pragma",
		"outfile", "dumpfile", "openrowset", "opendatasource", "openquery", "dblink", "dblink_exec", "load_file", "load_extension",
		"readfile", "writefile", "lo_import", "lo_export", "ts_stat", "connectby", "xpath_table", "set_config", "xp_cmdshell", "sp_executesql", "sys_exec", "sys_eval",
	}
	escapePrefixes = []string{"pg_read_", "pg_ls_", "pg_write_", "pg_file_", "xp_", "sp_", "utl_", "dbms_", "dblink", "crosstab", "query_to_", "table_to_", "schema_to_", "database_to_", "cursor_to_"}
	// fillers stand between a verb and its table.
	fillers = []string{
		"into", "from", "table", "only", "if", "exists", "not", "view", "index", "database", "schema", "sequence", "trigger", "function", "procedure",
		"role", "user", "temporary", "temp", "unlogged", "or", "replace", "ignore", "low_priority", "delayed", "quick", "materialized", "global", "local",
		"virtual", "external", "unique", "concurrently", "abort", "fail", "rollback", "overwrite", "type", "domain", "extension", "tablespace", "all",
	}
)

// ReadSQL tells the effects of SQL text, in the order of the text, each once.
func ReadSQL(sqlText string) []toolroom.Effect {
	if len(sqlText) > maxText {
		return []toolroom.Effect{unknown}
	}
	tokens, doubt := lex(sqlText, 0)
	r := &reader{seen: map[toolroom.Effect]bool{}}
	for len(tokens) > 0 {
		end := slices.IndexFunc(tokens, func(t token) bool { return t.is(";") })
		if end < 0 {
			end = len(tokens)
		}
		r.statement(tokens[:end])
		tokens = tokens[min(end+1, len(tokens)):]
		if len(r.effects) > sqlMaxEffects {
			return []toolroom.Effect{unknown}
		}
	}
	if doubt {
		r.add(unknown)
	}
	return r.effects
}

// unknown is the effect of what cannot be read.
var unknown = toolroom.Effect{Kind: toolroom.EffectSQL}

type reader struct {
	effects []toolroom.Effect
	seen    map[toolroom.Effect]bool
}

func (r *reader) add(e toolroom.Effect) {
	if !r.seen[e] {
		r.seen[e] = true
		r.effects = append(r.effects, e)
	}
}

// statement reads one statement, without its semicolon.
func (r *reader) statement(tokens []token) {
	for len(tokens) > 0 && tokens[0].is("(") {
		tokens = tokens[1:]
	}
	if len(tokens) == 0 {
		return
	}
	if !tokens[0].is(verbs...) {
		r.add(unknown)
	}
	before := len(r.effects)
	if tokens[0].is("create", "alter") && slices.ContainsFunc(tokens, func(t token) bool { return t.is("function", "procedure") }) {
		r.add(unknown) // the body may be a text in any language
	}
	if tokens[0].is("use", "set") && slices.ContainsFunc(tokens, func(t token) bool {
		return t.is("use", "search_path", "schema", "role", "authorization", "current_schema")
	}) {
		r.add(unknown) // what a name means changes
	}
	into := 0
	hasFrom := slices.ContainsFunc(tokens, func(t token) bool { return t.is("from") })
	lists := newLists(tokens)
	for i, t := range tokens {
		if len(r.effects) > sqlMaxEffects {
			return
		}
		if mode := lists.at(i); mode != "" {
			if name, _ := tableName(tokens[i:]); !lists.ctes[name] {
				r.add(toolroom.Effect{Kind: toolroom.EffectSQL, Mode: mode, Target: name})
			}
		}
		switch {
		case t.is(",") && tokens[0].is("rename"):
			r.add(unknown) // further tables
		case t.kind != word && t.kind != quoted:
		case escaping(t.text):
			r.add(unknown)
		case t.kind == quoted:
		case i == 0 && !t.is("with", "explain", "values", "begin", "start", "commit", "rollback", "savepoint", "release", "end", "set", "use", "select", "table"):
			r.verb(t.text, tokens[1:])
		case t.is(changing...) && changes(tokens, i):
			r.verb(t.text, tokens[i+1:])
		case t.is("select") && !hasFrom:
			r.add(toolroom.Effect{Kind: toolroom.EffectSQL, Mode: "select"})
		case t.is("into") && tokens[0].is("select"):
			r.verb("create", tokens[i+1:]) // SELECT … INTO makes a table
		case t.is("into") && tokens[0].is("insert"):
			if into++; into > 1 { // INSERT ALL INTO a … INTO b
				r.verb("insert", tokens[i+1:])
			}
		case t.is("into") && tokens[0].is("vacuum"):
			r.add(unknown) // a file
		}
	}
	if len(r.effects) == before {
		r.add(toolroom.Effect{Kind: toolroom.EffectSQL, Mode: tokens[0].text})
	}
}

func escaping(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(escapes, name) || slices.ContainsFunc(escapePrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// changes tells a verb from a column, a function and a clause of its name.
func changes(tokens []token, i int) bool {
	if i == 0 {
		return false
	}
	before := tokens[i-1]
	follows := i+1 < len(tokens) && tokens[i+1].is("(")
	switch {
	case before.is("."), follows && tokens[i].is(functions...):
		return false
	case tokens[i].is("update"):
		return !before.is("for", "key", "on")
	case tokens[i].is("delete"):
		return !before.is("on")
	case tokens[i].is("replace"):
		return !before.is("or")
	default:
		return true
	}
}

// verb notes a verb with the first table behind it. DROP and TRUNCATE take
// lists.
func (r *reader) verb(verb string, tokens []token) {
	tokens = behind(tokens)
	if verb == "grant" || verb == "revoke" {
		if on := slices.IndexFunc(tokens[:min(len(tokens), maxFillers)], func(t token) bool { return t.is("on") }); on >= 0 {
			tokens = behind(tokens[on+1:])
		}
	}
	name, rest := tableName(tokens)
	r.add(toolroom.Effect{Kind: toolroom.EffectSQL, Mode: verb, Target: name})
	if verb != "drop" && verb != "truncate" {
		return
	}
	for n := 0; name != "" && len(rest) > 0 && rest[0].is(","); n++ {
		if name, rest = tableName(rest[1:]); n == maxList {
			name = ""
		}
		r.add(toolroom.Effect{Kind: toolroom.EffectSQL, Mode: verb, Target: name})
	}
}

func behind(tokens []token) []token {
	for n := 0; n < maxFillers && len(tokens) > 0 && tokens[0].is(fillers...); n++ {
		tokens = tokens[1:]
	}
	return tokens
}

// notNames are words that stand where a name would, and are none.
var notNames = []string{"select", "values", "set", "where", "using", "on", "as", "with"}

// tableName reads a.b.c, in lower case without quotes.
func tableName(tokens []token) (name string, rest []token) {
	if len(tokens) == 0 || tokens[0].is(notNames...) {
		return "", tokens
	}
	var parts []string
	for len(tokens) > 0 && (tokens[0].kind == word || tokens[0].kind == quoted) {
		parts = append(parts, strings.ToLower(tokens[0].text))
		tokens = tokens[1:]
		if len(tokens) == 0 || !tokens[0].is(".") {
			break
		}
		tokens = tokens[1:]
	}
	return strings.Join(parts, "."), tokens
}

// commonTables are the names that WITH gives to queries: no tables.
func commonTables(tokens []token) map[string]bool {
	names := map[string]bool{}
	if !tokens[0].is("with") {
		return names
	}
	for i := 1; i+1 < len(tokens); i++ {
		named := tokens[i].kind == word || tokens[i].kind == quoted
		if named && tokens[i+1].is("as", "(") && tokens[i-1].is("with", "recursive", ",") {
			names[strings.ToLower(tokens[i].text)] = true
		}
	}
	return names
}
