package effects

// tableLists finds the tables that a statement names: after FROM, JOIN, USING and TABLE, and
// after each comma of such a list, however long its elements are.
type tableLists struct {
	tokens          []token
	ctes            map[string]int
	stack           []tableList // one for each open parenthesis
	usingNamesTable bool        // USING names a table
}

// tableList is the list of tables at one level of parentheses.
type tableList struct {
	mode        string // what happens to its tables, or empty outside of a list
	expectTable bool   // a table comes next
}

// listEnds are the words that end a list of tables.
var listEnds = []string{
	"where", "group", "order", "having", "limit", "union", "intersect", "except", "minus", "window", "returning", "fetch", "offset", "set", "values", "qualify",
	"connect", "start", "select",
}

func newTableLists(tokens []token) *tableLists {
	l := &tableLists{tokens: tokens, ctes: cteNames(tokens), stack: []tableList{{}}}
	for _, t := range tokens {
		l.usingNamesTable = l.usingNamesTable || t.is("delete", "merge")
	}
	return l
}

// modeAt returns the mode of the effect on the table that token i names, or "" if it names none.
// It must be called for each token in turn.
func (l *tableLists) modeAt(i int) string {
	t, top := l.tokens[i], &l.stack[len(l.stack)-1]
	switch {
	case t.is("("):
		inner := tableList{}
		if top.expectTable { // a list in parentheses, or a subquery
			inner, top.expectTable = *top, false
		}
		l.stack = append(l.stack, inner)
	case t.is(")"):
		if len(l.stack) > 1 {
			l.stack = l.stack[:len(l.stack)-1]
		} else {
			*top = tableList{}
		}
	case t.is(","):
		top.expectTable = top.mode != ""
	case t.is(listEnds...) && !l.isAlias(i):
		*top = tableList{}
	case t.is("from"):
		*top = tableList{mode: "select", expectTable: true}
		if l.isDelete(i-1) && (i < 2 || !l.tokens[i-2].is("as")) { // AS DELETE FROM may be an alias
			*top = tableList{mode: "delete"} // addVerb adds the first table
		}
	case t.is("join", "straight_join", "apply"), t.is("using") && l.usingNamesTable && !l.follows(i, "("):
		if top.mode != "update" {
			top.mode = "select"
		}
		top.expectTable = true
	case t.is("table") && l.isQuery(i):
		*top = tableList{mode: "select", expectTable: true}
	case t.is("update") && (i == 0 || isChangingVerb(l.tokens, i)):
		*top = tableList{mode: "update"}
	case l.isDelete(i):
		*top = tableList{mode: "delete"}
	case top.expectTable && !t.is("only", "lateral", "table"):
		top.expectTable = false
		return top.mode
	}
	return ""
}

func (l *tableLists) isDelete(i int) bool {
	return i >= 0 && l.tokens[i].is("delete") && (i == 0 || isChangingVerb(l.tokens, i))
}

func (l *tableLists) follows(i int, mark string) bool {
	return i+1 < len(l.tokens) && l.tokens[i+1].is(mark)
}

// isQuery reports whether TABLE at i is the statement that reads a table, not a word of another
// statement.
func (l *tableLists) isQuery(i int) bool {
	return i == 0 || !l.tokens[i-1].is("create", "alter", "drop", "truncate", "rename", "temporary", "temp", "unlogged", "external", "foreign", "global", "local", "virtual", "on", "lock", "or", "replace", "transient") &&
		l.tokens[i-1].kind != quotedName && !l.stack[len(l.stack)-1].expectTable
}

// isAlias reports whether the word at i, which may end a list of tables, is an alias or a name in
// the list.
func (l *tableLists) isAlias(i int) bool {
	return l.follows(i, ",") || l.follows(i, "(") && l.stack[len(l.stack)-1].mode == "select" && l.tokens[i].is("set", "start", "connect", "minus", "qualify")
}

// isCTE reports whether name at token i means a common table expression.
func (l *tableLists) isCTE(name string, i int) bool {
	from, ok := l.ctes[name]
	return ok && i > from
}
