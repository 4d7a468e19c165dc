package effects

// lists finds where the tables of a statement are named: behind FROM, JOIN, USING and TABLE,
// and behind each comma of such a list, however long what stands between is.
type lists struct {
	tokens []token
	ctes   map[string]int
	stack  []list // one for each open parenthesis
	using  bool   // USING names a table
}

// list is the list of tables that is read at one level of parentheses.
type list struct {
	mode string // what happens to its tables, or empty outside of a list
	next bool   // a table comes next
}

// ends are the words that end a list of tables.
var ends = []string{
	"where", "group", "order", "having", "limit", "union", "intersect", "except", "minus", "window", "returning", "fetch", "offset", "set", "values", "qualify",
	"connect", "start", "select",
}

func newLists(tokens []token) *lists {
	l := &lists{tokens: tokens, ctes: commonTables(tokens), stack: []list{{}}}
	for _, t := range tokens {
		l.using = l.using || t.is("delete", "merge")
	}
	return l
}

// at returns what happens to the table that is named at token i, or "" if none is. It must be
// called for each token in turn.
func (l *lists) at(i int) string {
	t, top := l.tokens[i], &l.stack[len(l.stack)-1]
	switch {
	case t.is("("):
		inner := list{}
		if top.next { // a list in parentheses, or a sub-query
			inner, top.next = *top, false
		}
		l.stack = append(l.stack, inner)
	case t.is(")"):
		if len(l.stack) > 1 {
			l.stack = l.stack[:len(l.stack)-1]
		} else {
			*top = list{}
		}
	case t.is(","):
		top.next = top.mode != ""
	case t.is(ends...) && !l.isAlias(i):
		*top = list{}
	case t.is("from"):
		*top = list{mode: "select", next: true}
		if l.isDelete(i-1) && (i < 2 || !l.tokens[i-2].is("as")) { // AS DELETE FROM may be an alias
			*top = list{mode: "delete"} // verb notes the first one
		}
	case t.is("join", "straight_join", "apply"), t.is("using") && l.using && !l.follows(i, "("):
		if top.mode != "update" {
			top.mode = "select"
		}
		top.next = true
	case t.is("table") && l.isQuery(i):
		*top = list{mode: "select", next: true}
	case t.is("update") && (i == 0 || changes(l.tokens, i)):
		*top = list{mode: "update"}
	case l.isDelete(i):
		*top = list{mode: "delete"}
	case top.next && !t.is("only", "lateral", "table"):
		top.next = false
		return top.mode
	}
	return ""
}

func (l *lists) isDelete(i int) bool {
	return i >= 0 && l.tokens[i].is("delete") && (i == 0 || changes(l.tokens, i))
}

func (l *lists) follows(i int, mark string) bool {
	return i+1 < len(l.tokens) && l.tokens[i+1].is(mark)
}

// isQuery reports whether TABLE at i is the command that reads a table, not a word of
// another one.
func (l *lists) isQuery(i int) bool {
	return i == 0 || !l.tokens[i-1].is("create", "alter", "drop", "truncate", "rename", "temporary", "temp", "unlogged", "external", "foreign", "global", "local", "virtual", "on", "lock", "or", "replace", "transient") &&
		l.tokens[i-1].kind != quoted && !l.stack[len(l.stack)-1].next
}

// isAlias reports whether a word that may end a list of tables is the name of one there.
func (l *lists) isAlias(i int) bool {
	return l.follows(i, ",") || l.follows(i, "(") && l.stack[len(l.stack)-1].mode == "select" && l.tokens[i].is("set", "start", "connect", "minus", "qualify")
}

// shields reports whether a name at token i is that of a query of WITH.
func (l *lists) shields(name string, i int) bool {
	from, ok := l.ctes[name]
	return ok && i > from
}
