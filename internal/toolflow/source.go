package toolflow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

// Tool is a tool of ToolFlow.
type Tool struct {
	ID          string
	Name        string
	Description string
	// Versions are in the order of their numbers.
	Versions []Version
	// Prod and Test are the numbers of the released versions, zero for none.
	Prod, Test int
	// Runs are test runs that succeeded, newest first.
	Runs []Run
}

// Version is a version of a tool.
type Version struct {
	Number  int
	Code    string
	Entry   string
	Config  json.RawMessage
	Schema  json.RawMessage
	Message string
	Status  string // draft, active or deprecated
}

// Run is a recorded execution.
type Run struct {
	ID      string
	Version int
	Input   json.RawMessage
	Output  json.RawMessage
}

// maxFile bounds a file that is read.
const maxFile = 512 << 20

// exportHint is the next step after something that cannot be an export of ToolFlow.
const exportHint = "give ToolFlow's SQLite file (server/db.sqlite3), a dump of mysqldump, or the URL of a running server (http://127.0.0.1:8000)"

// Read reads all tools from an SQLite file, a dump of mysqldump, or the address of a running
// server, such as http://127.0.0.1:8000. Tools are in the order of their ids.
func Read(ctx context.Context, from string) ([]Tool, error) {
	if strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://") {
		return readAPI(ctx, strings.TrimSuffix(from, "/"))
	}
	if scheme, _, ok := strings.Cut(from, "://"); ok {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "cannot read %s: %s is not http or https", from, scheme).WithHint("%s", exportHint)
	}
	info, err := os.Stat(from)
	switch {
	case err != nil:
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "cannot read %s: %w", from, errors.Unwrap(err)).WithHint("%s", exportHint)
	case info.IsDir():
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is a folder", from).WithHint("%s", exportHint)
	}
	if info.Size() > maxFile {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is larger than %d bytes", from, maxFile)
	}
	first, err := readHead(from, 16)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "cannot read %s: %w", from, errors.Unwrap(err)).WithHint("give this user the right to read it")
	}
	var tables map[string][]row
	if bytes.HasPrefix(first, []byte("SQLite format 3\x00")) {
		tables, err = sqliteTables(ctx, from)
	} else {
		tables, err = dumpTables(from)
	}
	if err != nil {
		return nil, err
	}
	return fromTables(from, tables)
}

func readHead(file string, n int) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	first := make([]byte, n)
	n, _ = f.Read(first)
	return first[:n], nil
}

func sqliteTables(ctx context.Context, file string) (map[string][]row, error) {
	found, err := sqlite.ReadTables(ctx, file, tableNames())
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "cannot read %s: %w", file, err)
	}
	tables := map[string][]row{}
	for name, rows := range found {
		for _, r := range rows {
			tables[name] = append(tables[name], row(r))
		}
	}
	return tables, nil
}

// Names of the files of an upload.
const (
	// CodeFile has the code as ToolFlow has it.
	CodeFile    = "toolflow_code.py"
	wrapperFile = "tool.py"
)

// wrapper is the function that calls that of ToolFlow, which gets all arguments as one
// object, and, if it takes two, a context.
const wrapper = `# Calls a function of ToolFlow, which gets all arguments as one object.
import inspect
from toolroom import Context
from toolflow_code import %s as _entry

_both = len(inspect.signature(_entry).parameters) > 1


def run(_toolroom: Context, **arguments):
    if not _both:
        return _entry(arguments)
    context = {"execution_id": _toolroom.call_id, "executor": "toolroom", "target_env": _toolroom.environment, "executor_env": _toolroom.environment}
    return _entry(arguments, {**context, "config": _toolroom.config or {}})
`

var (
	identifier     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	requestsImport = regexp.MustCompile(`(?m)^[ \t]*(?:import[ \t]+requests|from[ \t]+requests[ \t.])`)
)

// UsesRequests reports whether code imports the package requests, the only one that ToolFlow
// allows besides the standard library. It needs egress.
func UsesRequests(code string) bool { return requestsImport.MatchString(code) }

// Upload returns a version as an upload of the tool fn:NAME. Cases are saved with it.
func (v *Version) Upload(name, description string) (release.Upload, error) {
	entry := cmp.Or(v.Entry, "main")
	if !identifier.MatchString(entry) {
		return release.Upload{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "the entry point %q is not the name of a function", entry)
	}
	var schema map[string]any
	if len(v.Schema) > 0 && json.Unmarshal(v.Schema, &schema) != nil {
		return release.Upload{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "the schema is not a JSON object")
	}
	if len(schema) == 0 {
		schema = map[string]any{"type": "object", "properties": map[string]any{}}
	}
	manifest := map[string]any{
		"file":  wrapperFile,
		"tools": []any{map[string]any{"entry": "run", "name": name, "description": description, "input_schema": schema}},
	}
	var config map[string]any
	if len(v.Config) > 0 && string(v.Config) != "null" {
		if json.Unmarshal(v.Config, &config) != nil {
			return release.Upload{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "the config is not a JSON object")
		}
		if len(config) > 0 {
			manifest["config"] = config
		}
	}
	if UsesRequests(v.Code) {
		manifest["dependencies"] = []string{"requests"}
	}
	text, err := yaml.Dump(manifest, yaml.WithIndent(2))
	if err != nil {
		return release.Upload{}, err
	}
	return release.Upload{
		Files:   map[string]string{"tool.yaml": string(text), wrapperFile: fmt.Sprintf(wrapper, entry), CodeFile: v.Code},
		Message: v.Message, Base: -1,
	}, nil
}

// Explain returns the error of a push of a [release.Upload] in the words of ToolFlow, if the code lacks
// its entry point.
func Explain(err error) error {
	_, lacks, ok := strings.Cut(fmt.Sprint(err), strings.TrimSuffix(CodeFile, ".py")+" does not define ")
	if err == nil || !ok {
		return err
	}
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "the code does not define its entry point %s", lacks).WithHint("correct entry_point, or define that function")
}

// Original returns code and entry point of a version as ToolFlow has them: of one that was
// made by Upload, or of any function.
func Original(s *release.Spec) (code, entry string) {
	code, ok := s.Files[CodeFile]
	if !ok {
		return s.Files[s.File], s.Entry
	}
	_, rest, _ := strings.Cut(s.Files[wrapperFile], "from toolflow_code import ")
	entry, _, _ = strings.Cut(rest, " ")
	return code, entry
}

var invalidNameChars = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// Name returns the name of a tool here: its id with _ for what names cannot have. If it is
// taken, a number is added.
func Name(id string, taken func(string) bool) string {
	name := strings.Trim(invalidNameChars.ReplaceAllString(id, "_"), "_")
	name = cmp.Or(name[:min(len(name), toolroom.MaxIDPart)], "tool")
	for i := 2; taken(name); i++ {
		suffix := fmt.Sprintf("_%d", i)
		base := strings.TrimSuffix(name, fmt.Sprintf("_%d", i-1))
		name = base[:min(len(base), toolroom.MaxIDPart-len(suffix))] + suffix
	}
	return name
}

// sortTools puts tools, versions and runs in order.
func sortTools(tools []Tool) []Tool {
	slices.SortFunc(tools, func(a, b Tool) int { return cmp.Compare(a.ID, b.ID) })
	for i := range tools {
		slices.SortFunc(tools[i].Versions, func(a, b Version) int { return cmp.Compare(a.Number, b.Number) })
	}
	return tools
}
