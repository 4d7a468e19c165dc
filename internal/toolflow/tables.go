package toolflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
)

// row is a row of a table: values by column, as text, number or nil.
type row map[string]any

// Tables of ToolFlow's Django application.
const (
	toolTable      = "gateway_tool"
	versionTable   = "gateway_toolversion"
	releaseTable   = "gateway_toolrelease"
	executionTable = "gateway_execution"
)

func tableNames() []string { return []string{toolTable, versionTable, releaseTable, executionTable} }

func (r row) text(column string) string {
	switch v := r[column].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case nil:
		return ""
	default:
		return fmt.Sprint(v)
	}
}

func (r row) number(column string) int {
	n, _ := strconv.Atoi(r.text(column)) // zero for none
	return n
}

// json returns a column of JSON, which some databases hold as text.
func (r row) json(column string) json.RawMessage {
	text := r.text(column)
	if text == "" || !json.Valid([]byte(text)) {
		return nil
	}
	return json.RawMessage(text)
}

// id returns a UUID without its dashes, which only some databases store.
func (r row) id(column string) string { return strings.ReplaceAll(r.text(column), "-", "") }

// maxRuns is how many test runs of a tool are taken.
const maxRuns = 3

// fromTables builds the tools from the tables of a database.
func fromTables(from string, tables map[string][]row) ([]Tool, error) {
	if len(tables[toolTable]) == 0 && len(tables[versionTable]) == 0 {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s has no tools of ToolFlow: no rows of the tables %s and %s", from, toolTable, versionTable).
			WithHint("name db.sqlite3 of its server, a file of mysqldump, or the server's address")
	}
	var tools []Tool
	at := map[string]int{}
	for _, r := range tables[toolTable] {
		at[r.text("id")] = len(tools)
		tools = append(tools, Tool{ID: r.text("id"), Name: r.text("name"), Description: r.text("description")})
	}
	numbers := map[string]int{} // of versions, by id
	for _, r := range tables[versionTable] {
		i, ok := at[r.text("tool_id")]
		if !ok {
			continue
		}
		v := Version{
			Number: r.number("version"), Code: r.text("code"), Entry: r.text("entry_point"), Config: r.json("config"), Schema: r.json("schema"),
			Message: r.text("message"), Status: cmp.Or(r.text("status"), "draft"),
		}
		numbers[r.id("id")] = v.Number
		tools[i].Versions = append(tools[i].Versions, v)
	}
	for _, r := range tables[releaseTable] {
		if i, ok := at[r.text("tool_id")]; ok {
			tools[i].Prod, tools[i].Test = numbers[r.id("prod_version_id")], numbers[r.id("test_version_id")]
		}
	}
	executions := tables[executionTable]
	slices.SortStableFunc(executions, func(a, b row) int { return cmp.Compare(b.text("created_at"), a.text("created_at")) })
	for _, r := range executions {
		i, ok := at[r.text("tool_id")]
		if ok && r.text("status") == "success" && isTestRun(r.json("metadata")) {
			tools[i].add(Run{ID: r.id("id"), Version: numbers[r.id("version_id")], Input: r.json("input"), Output: r.json("output")})
		}
	}
	return sortTools(tools), nil
}

func isTestRun(metadata json.RawMessage) bool {
	var m struct {
		Trigger string `json:"trigger"`
	}
	return json.Unmarshal(metadata, &m) == nil && m.Trigger == "admin_test_run"
}

// add adds a run, unless there are enough, or one with the same input.
func (t *Tool) add(r Run) {
	if len(t.Runs) < maxRuns && len(r.Input) > 0 && !slices.ContainsFunc(t.Runs, func(o Run) bool { return string(o.Input) == string(r.Input) }) {
		t.Runs = append(t.Runs, r)
	}
}
