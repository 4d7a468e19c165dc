package api

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/server/auth"
)

// Operator is what operators change over HTTP besides policy and tokens. Its methods are
// safe for concurrent use.
type Operator interface {
	// AddSource and EditSource write a source of the config file and apply it. What seems to
	// be a secret in it goes into the store; they return the references.
	AddSource(ctx context.Context, name string, section json.RawMessage, force bool) (secrets []string, err error)
	EditSource(ctx context.Context, name string, section json.RawMessage) (secrets []string, err error)
	SwitchSource(ctx context.Context, name string, enabled bool) error
	RemoveSource(ctx context.Context, name string) error
	RestartSource(name string) error
	// DisabledSources are those of the config that are turned off.
	DisabledSources() []Source
	TestSource(ctx context.Context, name string) (SourceTest, error)
	// SourceConfig returns the section of a source, without secrets.
	SourceConfig(name string) (section map[string]any, ok bool)

	Secrets() ([]SecretName, error)
	SetSecret(ctx context.Context, n SecretName, value string) error
	RemoveSecret(ctx context.Context, n SecretName) error

	// VerifyReceipts returns the number of receipts whose chain is intact.
	VerifyReceipts(ctx context.Context) (int64, error)

	// Config returns the config file, and the config in force without secrets.
	Config() (file string, tree map[string]any, err error)
	CheckConfig() (ConfigCheck, error)
	// Reload reads the config again.
	Reload() (Reloaded, error)

	// Record keeps a receipt of a change, or of one that was refused.
	Record(ctx context.Context, what string, arguments any, who toolroom.Identity, refused error) error
}

// SourceRequest is a source to add to the config file.
type SourceRequest struct {
	Name string `json:"name" doc:"namespace of its tools"`
	// Source is a section of sources in toolroom.yaml, as JSON.
	Source json.RawMessage `json:"source" doc:"its section of the config as JSON, such as {\"mcp\": {\"url\": \"https://example.com/mcp\"}}"`
	Force  bool            `json:"force,omitempty" doc:"replace a source of this name"`
	NoTest bool            `json:"no_test,omitempty" doc:"do not start it to list its tools"`
}

// EditRequest is the new section of a source.
type EditRequest struct {
	Source json.RawMessage `json:"source" doc:"its section of the config as JSON; secrets are written as references"`
}

// SourceTest is the outcome of starting a source and listing its tools.
type SourceTest struct {
	Source
	TookMS      int64    `json:"took_ms" doc:"time to start it and list its tools, in milliseconds"`
	Quarantined int      `json:"quarantined,omitempty" doc:"number of tools that a person must review"`
	Findings    []string `json:"findings,omitempty" doc:"suspicious texts in its definitions"`
	Problems    []string `json:"problems,omitempty" doc:"invalid schemas: calls of their tools fail"`
	LeftOut     []string `json:"left_out,omitempty" doc:"what it offers and is no tool here, with the reasons"`
}

// SourceChange is the outcome of adding or editing a source.
type SourceChange struct {
	Name    string      `json:"name" doc:"name of the source"`
	Secrets []string    `json:"secrets" doc:"references to what was in plain text and is now in the secret store"`
	Test    *SourceTest `json:"test,omitempty" doc:"whether it works; absent if it was not tested"`
}

// SourceDetail is a source with its section of the config.
type SourceDetail struct {
	Source
	Config map[string]any `json:"config,omitempty" doc:"its section of the config; what seems to be a secret is hidden"`
}

// SourceLogs is what the program of a source has written.
type SourceLogs struct {
	Name   string `json:"name" doc:"name of the source"`
	State  string `json:"state" doc:"state of the source"`
	Error  string `json:"error,omitempty" doc:"why it does not work"`
	Output string `json:"output" doc:"the end of what its program has written to stderr, also of one that has ended"`
}

// SecretName names a secret. Values are never shown.
type SecretName struct {
	Scope     string `json:"scope" doc:"first part of the reference"`
	Name      string `json:"name" doc:"second part of the reference"`
	Owner     string `json:"owner,omitempty" doc:"the identity whose own value it is; empty for the shared one"`
	Reference string `json:"reference" doc:"how the config refers to it"`
}

// SecretRequest is the value of a secret.
type SecretRequest struct {
	Value string `json:"value" doc:"the value, which cannot be read back"`
}

// SecretPath names a secret in a path.
type SecretPath struct {
	Scope string `path:"scope" doc:"first part of the reference"`
	Name  string `path:"name" doc:"second part of the reference"`
	Owner string `query:"for" doc:"the identity whose own value is meant; empty for the shared one"`
}

type secretInput struct {
	SecretPath
	Exchange
}

type secretPage struct {
	Secrets []SecretName `json:"secrets" doc:"the names"`
	Next    string       `json:"next,omitempty" doc:"cursor of the next page; empty at the end of the list"`
}

// AuditHead is the end of the chain of receipts.
type AuditHead struct {
	Seq  int64  `json:"seq" doc:"number of the last receipt; 0 if there is none"`
	Hash string `json:"hash,omitempty" doc:"hash of the last receipt, to which the next one is chained"`
	Call string `json:"call,omitempty" doc:"call of the last receipt"`
}

// AuditVerified is the outcome of verifying the chain of receipts.
type AuditVerified struct {
	OK       bool            `json:"ok" doc:"whether the chain is intact"`
	Receipts int64           `json:"receipts" doc:"number of receipts that were verified"`
	Error    *toolroom.Error `json:"error,omitempty" doc:"where it is broken"`
}

// ConfigState is the config in force.
type ConfigState struct {
	File   string         `json:"file,omitempty" doc:"the config file; empty if there is none"`
	Config map[string]any `json:"config" doc:"the config with its defaults; what seems to be a secret is hidden"`
}

// ConfigCheck is the outcome of checking the config file, and what a reload would change.
type ConfigCheck struct {
	File     string          `json:"file" doc:"the config file"`
	OK       bool            `json:"ok" doc:"whether it is valid"`
	Problems []ConfigProblem `json:"problems" doc:"mistakes, because of which the file does not count"`
	Warnings []ConfigProblem `json:"warnings" doc:"what may be a mistake"`
	Changed  []string        `json:"changed" doc:"keys that a reload changes"`
	Restart  []string        `json:"restart" doc:"keys that count after a restart of the server"`
}

// ConfigProblem is a mistake in the config file.
type ConfigProblem struct {
	Line   int    `json:"line,omitempty" doc:"line in the file, from 1; 0 if it is not known"`
	Column int    `json:"column,omitempty" doc:"column in the line, from 1"`
	Key    string `json:"key,omitempty" doc:"the key, such as sources.git.cli.command"`
	Reason string `json:"reason" doc:"what is wrong"`
	Hint   string `json:"hint,omitempty" doc:"what to do"`
}

// The rights that a group operators:NAME gives its members without all of an operator's.
const (
	partSources = "sources"
	partSecrets = "secrets"
	partAudit   = "audit"
	partConfig  = "config"
	partAll     = "" // operators only
)

// hasPart reports whether a caller has the rights of one part.
func hasPart(who toolroom.Identity, part string) bool {
	return !auth.Bound(who) && slices.Contains(who.Groups, auth.Operators+":"+part)
}

// requirePart returns an error unless the caller is an operator or in the group of the part.
func (s *Server) requirePart(ctx context.Context, part, what string) (Operator, error) {
	if s.o.Admin.Operator == nil {
		return nil, unsupportedError("this server does not offer to " + what)
	}
	who := auth.Identity(ctx)
	if auth.IsOperator(who) || part != partAll && hasPart(who, part) {
		return s.o.Admin.Operator, nil
	}
	groups := auth.Operators
	if part != partAll {
		groups += " or " + auth.Operators + ":" + part
	}
	return nil, toolroom.Errorf(toolroom.CodeDenied, "only an operator may %s", what).WithHint("send a token of the group %s", groups)
}

// change makes a change if the caller may make it, and keeps a receipt even if it is
// refused. The arguments must hold no secrets.
func (s *Server) change(ctx context.Context, part, name, what string, arguments any, do func(Operator) error) error {
	op, err := s.requirePart(ctx, part, what)
	if op == nil && s.o.Admin.Operator == nil {
		return err
	}
	if err == nil {
		err = do(op)
	}
	return s.recordChange(ctx, name, arguments, err)
}

// recordChange keeps a receipt of a change that ended with err, and returns err.
func (s *Server) recordChange(ctx context.Context, name string, arguments any, err error) error {
	op := s.o.Admin.Operator
	if op == nil {
		return err
	}
	if failed := op.Record(context.WithoutCancel(ctx), name, arguments, auth.Identity(ctx), err); err == nil && failed != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "the change was made, but its receipt could not be kept: %w", failed)
	}
	return err
}

// named holds the arguments in the receipt of a change of one named thing.
type named struct {
	Name  string `json:"name"`
	Owner string `json:"owner,omitempty"`
	Force bool   `json:"force,omitempty"`
}

// allSources returns the sources, and the disabled ones of the config.
func (s *Server) allSources() []Source {
	var all []Source
	if s.o.Sources != nil {
		all = s.o.Sources()
	}
	if op := s.o.Admin.Operator; op != nil {
		all = append(all, op.DisabledSources()...)
		slices.SortFunc(all, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	}
	return all
}

func (s *Server) source(name string) (Source, error) {
	for _, one := range s.allSources() {
		if one.Name == name {
			return one, nil
		}
	}
	return Source{}, toolroom.Errorf(toolroom.CodeNotFound, "source %q not found", name).WithHint("list the sources: GET %s/sources", Prefix)
}

func (s *Server) getSource(ctx context.Context, in *nameInput) (*jsonOutput[SourceDetail], error) {
	op, err := s.requirePart(ctx, partSources, "see the sources")
	if err != nil {
		return nil, err
	}
	found, err := s.source(in.Name)
	if err != nil {
		return nil, err
	}
	section, _ := op.SourceConfig(in.Name)
	return &jsonOutput[SourceDetail]{SourceDetail{found, section}}, nil
}

func (s *Server) addSource(ctx context.Context, in *Exchange) (*jsonOutput[SourceChange], error) {
	body, err := readJSON[SourceRequest](in)
	if err != nil {
		return nil, err
	}
	out := SourceChange{Name: body.Name, Secrets: []string{}}
	// The section may hold secrets, so the receipt has only its name.
	err = s.change(ctx, partAll, "sources.add", "add sources", named{Name: body.Name, Force: body.Force}, func(op Operator) error {
		secrets, err := op.AddSource(ctx, body.Name, body.Source, body.Force)
		out.Secrets = append(out.Secrets, secrets...)
		return err
	})
	if err != nil || body.NoTest {
		return &jsonOutput[SourceChange]{out}, err
	}
	test, err := s.o.Admin.Operator.TestSource(ctx, body.Name)
	out.Test = &test
	return &jsonOutput[SourceChange]{out}, err
}

type editInput struct {
	Name string `path:"name" doc:"name of the source"`
	Exchange
}

func (s *Server) editSource(ctx context.Context, in *editInput) (*jsonOutput[SourceChange], error) {
	body, err := readJSON[EditRequest](&in.Exchange)
	if err != nil {
		return nil, err
	}
	out := SourceChange{Name: in.Name, Secrets: []string{}}
	err = s.change(ctx, partAll, "sources.edit", "edit sources", named{Name: in.Name}, func(op Operator) error {
		secrets, err := op.EditSource(ctx, in.Name, body.Source)
		out.Secrets = append(out.Secrets, secrets...)
		return err
	})
	return &jsonOutput[SourceChange]{out}, err
}

func (s *Server) removeSource(ctx context.Context, in *nameInput) (*struct{}, error) {
	return nil, s.change(ctx, partAll, "sources.remove", "remove sources", named{Name: in.Name}, func(op Operator) error { return op.RemoveSource(ctx, in.Name) })
}

func (s *Server) enableSource(ctx context.Context, in *nameInput) (*struct{}, error) {
	return nil, s.change(ctx, partAll, "sources.enable", "enable sources", named{Name: in.Name}, func(op Operator) error { return op.SwitchSource(ctx, in.Name, true) })
}

func (s *Server) disableSource(ctx context.Context, in *nameInput) (*struct{}, error) {
	return nil, s.change(ctx, partAll, "sources.disable", "disable sources", named{Name: in.Name}, func(op Operator) error { return op.SwitchSource(ctx, in.Name, false) })
}

func (s *Server) restartSource(ctx context.Context, in *nameInput) (*struct{}, error) {
	return nil, s.change(ctx, partSources, "sources.restart", "restart sources", named{Name: in.Name}, func(op Operator) error { return op.RestartSource(in.Name) })
}

func (s *Server) testSource(ctx context.Context, in *nameInput) (*jsonOutput[SourceTest], error) {
	op, err := s.requirePart(ctx, partSources, "test sources")
	if err != nil {
		return nil, err
	}
	test, err := op.TestSource(ctx, in.Name)
	return &jsonOutput[SourceTest]{test}, err
}

func (s *Server) sourceLogs(ctx context.Context, in *nameInput) (*jsonOutput[SourceLogs], error) {
	if _, err := s.requirePart(ctx, partSources, "see the output of sources"); err != nil {
		return nil, err
	}
	found, err := s.source(in.Name)
	return &jsonOutput[SourceLogs]{SourceLogs{found.Name, found.State, found.Error, found.Output}}, err
}

func (s *Server) listSecrets(ctx context.Context, in *Paging) (*jsonOutput[secretPage], error) {
	op, err := s.requirePart(ctx, partSecrets, "see the names of secrets")
	if err != nil {
		return nil, err
	}
	all, err := op.Secrets()
	if err != nil {
		return nil, err
	}
	list, next, err := Page(all, *in, func(n SecretName) string { return n.Scope + "/" + n.Name + "@" + n.Owner })
	return &jsonOutput[secretPage]{secretPage{list, next}}, err
}

func (s *Server) setSecret(ctx context.Context, in *secretInput) (*struct{}, error) {
	body, err := readJSON[SecretRequest](&in.Exchange)
	if err != nil {
		return nil, err
	}
	n := SecretName{Scope: in.Scope, Name: in.Name, Owner: in.Owner}
	return nil, s.change(ctx, partSecrets, "secrets.set", "set secrets", named{Name: in.Scope + "/" + in.Name, Owner: in.Owner}, func(op Operator) error { return op.SetSecret(ctx, n, body.Value) })
}

func (s *Server) removeSecret(ctx context.Context, in *SecretPath) (*struct{}, error) {
	n := SecretName{Scope: in.Scope, Name: in.Name, Owner: in.Owner}
	return nil, s.change(ctx, partSecrets, "secrets.remove", "remove secrets", named{Name: in.Scope + "/" + in.Name, Owner: in.Owner}, func(op Operator) error { return op.RemoveSecret(ctx, n) })
}

func (s *Server) auditHead(ctx context.Context, _ *struct{}) (*jsonOutput[AuditHead], error) {
	if _, err := s.requirePart(ctx, partAudit, "see the receipts of all callers"); err != nil {
		return nil, err
	}
	last, err := s.o.Receipts.Receipts(ctx, toolroom.ReceiptQuery{Limit: 1})
	if err != nil || len(last) == 0 {
		return &jsonOutput[AuditHead]{}, err
	}
	return &jsonOutput[AuditHead]{AuditHead{last[0].Seq, last[0].Hash, last[0].ID}}, nil
}

func (s *Server) verifyAudit(ctx context.Context, _ *struct{}) (*jsonOutput[AuditVerified], error) {
	op, err := s.requirePart(ctx, partAudit, "verify the receipts")
	if err != nil {
		return nil, err
	}
	n, err := op.VerifyReceipts(ctx)
	if ctx.Err() != nil {
		return nil, err
	}
	out := AuditVerified{OK: err == nil, Receipts: n}
	if err != nil {
		out.Error = toolroom.AsError(err)
	}
	return &jsonOutput[AuditVerified]{out}, nil
}

func (s *Server) listAudit(ctx context.Context, in *receiptsInput) (*jsonOutput[receiptPage], error) {
	if _, err := s.requirePart(ctx, partAudit, "see the receipts of all callers"); err != nil {
		return nil, err
	}
	q, err := in.selected()
	if err != nil {
		return nil, err
	}
	return s.receiptsOf(ctx, in, q)
}

func (s *Server) getConfig(ctx context.Context, _ *struct{}) (*jsonOutput[ConfigState], error) {
	op, err := s.requirePart(ctx, partConfig, "see the config")
	if err != nil {
		return nil, err
	}
	file, tree, err := op.Config()
	return &jsonOutput[ConfigState]{ConfigState{file, tree}}, err
}

func (s *Server) checkConfig(ctx context.Context, _ *struct{}) (*jsonOutput[ConfigCheck], error) {
	op, err := s.requirePart(ctx, partConfig, "check the config")
	if err != nil {
		return nil, err
	}
	out, err := op.CheckConfig()
	return &jsonOutput[ConfigCheck]{out}, err
}

func (s *Server) reloadConfig(ctx context.Context, _ *struct{}) (*jsonOutput[Reloaded], error) {
	var out Reloaded
	err := s.change(ctx, partAll, "config.reload", "reload the config", struct{}{}, func(op Operator) (err error) {
		out, err = op.Reload()
		return err
	})
	return &jsonOutput[Reloaded]{out}, err
}

// receiptsOf returns a page of receipts.
func (s *Server) receiptsOf(ctx context.Context, in *receiptsInput, q toolroom.ReceiptQuery) (*jsonOutput[receiptPage], error) {
	q.Parent, q.Code, q.Label, q.BeforeSeq, q.Limit = in.Parent, in.Code, in.Label, in.Cursor, in.Limit
	list, err := s.o.Receipts.Receipts(ctx, q)
	if err != nil {
		return nil, err
	}
	page := receiptPage{Calls: append([]*toolroom.Receipt{}, list...), Answers: map[string]LaterAnswer{}}
	for _, r := range list {
		r.Logs = nil // they are in the receipt of one call
		answer, err := s.laterAnswer(ctx, r.PendingApproval)
		if err != nil {
			return nil, err
		}
		if answer != nil {
			page.Answers[r.PendingApproval] = *answer
		}
	}
	if len(list) == receipt.RowLimit(q) {
		page.Next = strconv.FormatInt(list[len(list)-1].Seq, 10)
	}
	return &jsonOutput[receiptPage]{page}, nil
}
