package effects

import (
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// SQL that is longer than sqlMaxText bytes or has more than sqlMaxEffects effects is unknown.
const (
	sqlMaxText    = 256 << 10
	sqlMaxEffects = 200
	// maxFillers is how many words can be between a verb and its table, and maxList how many
	// tables a list can have.
	maxFillers = 64
	maxList    = 64
)

var (
	// statementVerbs begin the statements that this package knows.
	statementVerbs = []string{
		"select", "insert", "update", "delete", "replace", "merge", "drop", "truncate", "alter", "create", "rename",
		"grant", "revoke", "values", "table", "show", "describe", "desc", "explain", "begin", "start", "commit", "rollback", "savepoint", "release", "end",
		"analyze", "vacuum", "reindex", "comment", "with", "use", "set",
	}
	// changingVerbs count anywhere in a statement: in a CTE, after EXPLAIN ANALYZE, in the
	// body of a trigger.
	changingVerbs = []string{"insert", "update", "delete", "replace", "merge", "drop", "truncate", "alter", "create", "grant", "revoke"}
	// functionVerbs are verbs that are also names of functions.
	functionVerbs = []string{"replace", "insert", "truncate"}
	// escapeWords run code that cannot be read here, or use more than tables.
	escapeWords = []string{
		"execute", "exec", "call", "do", "prepare", "copy", "load", "attach", "handler", "import", "pragma",
		"outfile", "dumpfile", "openrowset", "opendatasource", "openquery", "dblink", "dblink_exec", "load_file", "load_extension",
		"readfile", "writefile", "lo_import", "lo_export", "ts_stat", "connectby", "xpath_table", "set_config", "xp_cmdshell", "sp_executesql", "sys_exec", "sys_eval",
	}
	escapePrefixes = []string{"pg_read_", "pg_ls_", "pg_write_", "pg_file_", "xp_", "sp_", "utl_", "dbms_", "dblink", "crosstab", "query_to_", "table_to_", "schema_to_", "database_to_", "cursor_to_"}
	// fillers may be between a verb and its table.
	fillers = []string{
		"into", "from", "table", "only", "if", "exists", "not", "view", "index", "database", "schema", "sequence", "trigger", "function", "procedure",
		"role", "user", "temporary", "temp", "unlogged", "or", "replace", "ignore", "low_priority", "delayed", "quick", "materialized", "global", "local",
		"virtual", "external", "unique", "concurrently", "abort", "fail", "rollback", "overwrite", "type", "domain", "extension", "tablespace", "all",
	}
)

// ReadSQL returns the effects of SQL text, each once, in the order of the text.
func ReadSQL(sqlText string) []toolroom.Effect {
	if len(sqlText) > sqlMaxText {
		return []toolroom.Effect{unknownSQL}
	}
	tokens, doubt := lex(sqlText, 0)
	r := &sqlReader{seen: map[toolroom.Effect]bool{}}
	for len(tokens) > 0 {
		end := slices.IndexFunc(tokens, func(t token) bool { return t.is(";") })
		if end < 0 {
			end = len(tokens)
		}
		r.readStatement(tokens[:end])
		tokens = tokens[min(end+1, len(tokens)):]
		if len(r.effects) > sqlMaxEffects {
			return []toolroom.Effect{unknownSQL}
		}
	}
	if doubt {
		r.add(unknownSQL)
	}
	return r.effects
}

// unknownSQL is the effect of SQL that cannot be read.
var unknownSQL = toolroom.Effect{Kind: toolroom.EffectSQL}

type sqlReader struct {
	effects []toolroom.Effect
	seen    map[toolroom.Effect]bool
}

func (r *sqlReader) add(e toolroom.Effect) {
	if !r.seen[e] {
		r.seen[e] = true
		r.effects = append(r.effects, e)
	}
}

// readStatement reads one statement, without its semicolon.
func (r *sqlReader) readStatement(tokens []token) {
	for len(tokens) > 0 && tokens[0].is("(") {
		tokens = tokens[1:]
	}
	if len(tokens) == 0 {
		return
	}
	if !tokens[0].is(statementVerbs...) {
		r.add(unknownSQL)
	}
	before := len(r.effects)
	if tokens[0].is("create", "alter") && slices.ContainsFunc(tokens, func(t token) bool { return t.is("function", "procedure") }) {
		r.add(unknownSQL) // the body may be in any language
	}
	if tokens[0].is("use", "set") && slices.ContainsFunc(tokens, func(t token) bool {
		return t.is("use", "search_path", "schema", "role", "authorization", "current_schema")
	}) {
		r.add(unknownSQL) // names then mean other tables
	}
	into := 0
	hasFrom := slices.ContainsFunc(tokens, func(t token) bool { return t.is("from") })
	lists := newTableLists(tokens)
	for i, t := range tokens {
		if len(r.effects) > sqlMaxEffects {
			return
		}
		if mode := lists.modeAt(i); mode != "" {
			quotedAsIs := t.kind == quotedName && t.text != strings.ToLower(t.text) // not the same name in lower case
			if name, _ := tableName(tokens[i:]); name == "" || quotedAsIs || !lists.isCTE(name, i) {
				r.add(toolroom.Effect{Kind: toolroom.EffectSQL, Mode: mode, Target: name})
			}
		}
		switch {
		case t.is("to", "schema", "exchange", "attach", "swap", "system") && tokens[0].is("rename", "alter"):
			r.add(unknownSQL) // names then mean other tables
		case t.is("global", "persist", "@") && tokens[0].is("set"), t.is("extension", "server", "foreign") && i == 1:
			r.add(unknownSQL) // settings of the server, and code for it
		case t.is("(") && callsUnknownFunction(tokens, i, lists):
			r.add(unknownSQL) // a function that may do anything
		case t.kind != wordToken && t.kind != quotedName:
		case isEscape(t.text):
			r.add(unknownSQL)
		case t.kind == quotedName:
		case i == 0 && !t.is("with", "explain", "values", "begin", "start", "commit", "rollback", "savepoint", "release", "end", "set", "use", "select", "table"):
			r.addVerb(t.text, tokens[1:])
		case t.is(changingVerbs...) && isChangingVerb(tokens, i):
			r.addVerb(t.text, tokens[i+1:])
		case t.is("select") && !hasFrom:
			r.add(toolroom.Effect{Kind: toolroom.EffectSQL, Mode: "select"})
		case t.is("into") && tokens[0].is("select"):
			r.addVerb("create", tokens[i+1:]) // SELECT … INTO creates a table
		case t.is("into") && tokens[0].is("insert"):
			if into++; into > 1 { // INSERT ALL INTO a … INTO b
				r.addVerb("insert", tokens[i+1:])
			}
		case t.is("into") && tokens[0].is("vacuum"):
			r.add(unknownSQL) // a file
		}
	}
	if len(r.effects) == before {
		r.add(toolroom.Effect{Kind: toolroom.EffectSQL, Mode: tokens[0].text})
	}
}

func isEscape(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(escapeWords, name) || slices.ContainsFunc(escapePrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// isChangingVerb reports whether the word at i, one of changingVerbs, is a verb, and not a
// column, a function or a part of a clause.
func isChangingVerb(tokens []token, i int) bool {
	if i == 0 {
		return false
	}
	before := tokens[i-1]
	follows := i+1 < len(tokens) && tokens[i+1].is("(")
	switch {
	case before.is("."), follows && tokens[i].is(functionVerbs...):
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

// addVerb adds the effect of a verb on the first table of tokens. DROP and TRUNCATE can have a
// list of tables.
func (r *sqlReader) addVerb(verb string, tokens []token) {
	tokens = skipFillers(tokens)
	if verb == "grant" || verb == "revoke" {
		if on := slices.IndexFunc(tokens[:min(len(tokens), maxFillers)], func(t token) bool { return t.is("on") }); on >= 0 {
			if tokens = tokens[on+1:]; len(tokens) > 0 && tokens[0].is("all") {
				tokens = nil
			}
			tokens = skipFillers(tokens)
		}
	}
	name, rest := tableName(tokens)
	if name == "owned" || name == "top" {
		name = ""
	}
	r.add(toolroom.Effect{Kind: toolroom.EffectSQL, Mode: verb, Target: name})
	if verb != "drop" && verb != "truncate" {
		return
	}
	for n := 0; name != ""; n++ {
		if len(rest) > 0 && rest[0].is("*") { // TRUNCATE a *, b
			rest = rest[1:]
		}
		if len(rest) == 0 || !rest[0].is(",") {
			return
		}
		if name, rest = tableName(skipFillers(rest[1:])); n == maxList {
			name = ""
		}
		r.add(toolroom.Effect{Kind: toolroom.EffectSQL, Mode: verb, Target: name})
	}
}

func skipFillers(tokens []token) []token {
	for n := 0; n < maxFillers && len(tokens) > 0 && tokens[0].is(fillers...); n++ {
		tokens = tokens[1:]
	}
	return tokens
}

// nonNames are words in the place of a name that are not names.
var nonNames = []string{"select", "values", "set", "where", "using", "on", "as", "with"}

// tableName reads a name such as a.b.c, and returns it in lower case without quotes.
func tableName(tokens []token) (name string, rest []token) {
	if len(tokens) == 0 || tokens[0].is(nonNames...) {
		return "", tokens
	}
	var parts []string
	for len(tokens) > 0 && (tokens[0].kind == wordToken || tokens[0].kind == quotedName) {
		parts = append(parts, strings.ToLower(tokens[0].text))
		tokens = tokens[1:]
		if len(tokens) == 0 || !tokens[0].is(".") {
			break
		}
		if tokens = tokens[1:]; len(tokens) > 0 && tokens[0].kind == literal {
			return "", tokens // SQLite accepts a string as a name
		}
	}
	return strings.Join(parts, "."), tokens
}

// cteNames returns the names of the common table expressions (WITH), each with the index of
// the token after which it means the expression and not a table.
func cteNames(tokens []token) map[string]int {
	names := map[string]int{}
	if !tokens[0].is("with") {
		return names
	}
	recursive := len(tokens) > 1 && tokens[1].is("recursive")
	depth, name, start := 0, "", 0
	for i, t := range tokens {
		switch {
		case t.is("("):
			depth++
		case t.is(")"):
			if depth--; depth == 0 && name != "" && i+1 < len(tokens) && !tokens[i+1].is("as") {
				if recursive {
					names[name] = start
				} else {
					names[name] = i
				}
				name = ""
			}
		case depth > 0:
		case t.is("select", "insert", "update", "delete", "merge", "values", "table", "replace"):
			return names
		case i > 0 && tokens[i-1].is("with", "recursive", ",") && !t.is("recursive"):
			if name, start = "", i; t.kind == wordToken || t.kind == quotedName && t.text == strings.ToLower(t.text) {
				name = t.text
			}
		}
	}
	return names
}

// callsUnknownFunction reports whether the parenthesis at i opens the arguments of a function
// that may change something.
func callsUnknownFunction(tokens []token, i int, l *tableLists) bool {
	if i == 0 || tokens[i-1].kind != wordToken && tokens[i-1].kind != quotedName {
		return false
	}
	if tokens[i-1].kind == wordToken && harmlessCalls[tokens[i-1].text] {
		return false
	}
	first := i - 1
	for first > 1 && tokens[first-1].is(".") {
		first -= 2
	}
	if first == 0 {
		return false
	}
	before := tokens[first-1]
	_, query := l.ctes[tokens[first].text]
	return !query && !before.is("into", "table", "as", "references", "index", "key", "constraint", "exists", "view", "on", "insert", "replace", "with", "recursive", ")", "only", "for", "conflict", "unique")
}

// harmlessCalls are the words before a parenthesis that are not calls, types, and functions that
// only compute.
var harmlessCalls = shellWords(`in values and or not exists any all some over using on where having when then else case select from join by filter within group
	distinct union except intersect minus lateral only rollup cube sets partition primary key unique check foreign with as is like ilike between limit offset
	top returning set row rows array interval materialized conflict index use ignore force columns if while into default always recursive match against order do
	explain analyze vacuum option options begin end return include tablesample bernoulli system ordinality for table clone cluster to escape similar glob regexp
	varchar char numeric decimal float double int integer bigint smallint time timestamp datetime datetime2 bit nvarchar nchar varbinary binary character varying
	enum vector text real number varchar2 tinyint precision zone
	count sum avg min max total abs ceil ceiling floor round trunc sign mod power pow sqrt exp ln log log10 log2 pi random rand sin cos tan asin acos atan atan2
	greatest least coalesce nullif ifnull isnull nvl iif decode cast convert try_cast typeof
	lower upper length len char_length character_length octet_length bit_length trim ltrim rtrim btrim lpad rpad left right substr substring replace reverse
	repeat concat concat_ws position strpos instr charindex locate split_part regexp_replace regexp_matches regexp_match regexp_like regexp_substr translate
	initcap ascii chr unicode hex unhex md5 sha1 sha2 sha256 to_hex encode format printf quote quote_ident quote_literal starts_with overlay soundex
	now current_timestamp current_date current_time localtime localtimestamp date datetime julianday strftime unixepoch date_trunc date_part extract age
	to_char to_date to_timestamp to_number make_date make_interval date_add date_sub dateadd datediff datepart date_format timestampdiff year month day hour
	minute second week quarter dayofweek weekday last_day getdate sysdate curdate curtime from_unixtime unix_timestamp eomonth
	row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value grouping
	string_agg group_concat array_agg json_agg jsonb_agg json_object_agg jsonb_object_agg json_group_array json_group_object listagg bool_and bool_or every
	stddev stddev_pop stddev_samp variance var_pop var_samp corr median percentile_cont percentile_disc mode bit_and bit_or approx_count_distinct
	json json_extract json_object json_array json_array_length json_type json_valid json_each json_tree json_value json_query json_set json_insert json_remove
	json_build_object json_build_array jsonb_build_object jsonb_build_array jsonb_array_elements json_array_elements jsonb_array_elements_text jsonb_each
	jsonb_each_text jsonb_object_keys to_json to_jsonb row_to_json jsonb_set jsonb_typeof jsonb_pretty json_table xmltable openjson
	generate_series unnest array_length cardinality array_to_string string_to_array array_append array_position
	gen_random_uuid uuid newid version current_user current_database database user changes last_insert_rowid pg_typeof
	to_tsvector to_tsquery plainto_tsquery websearch_to_tsquery ts_rank ts_headline similarity bm25 highlight snippet st_distance st_contains`)
