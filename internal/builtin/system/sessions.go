package system

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/source"
)

// SessionOptions configure the pack of sessions.
type SessionOptions struct {
	Sessions *session.Store
	// Receipts returns receipts of calls.
	Receipts func(ctx context.Context, q toolroom.ReceiptQuery) ([]*toolroom.Receipt, error)
	// Taint adds taint labels to the call around ctx.
	Taint func(ctx context.Context, labels ...taint.Label) bool
}

// codeTool is the tool that runs programs in code sessions.
const codeTool = "code:execute"

// maxScan is the maximum number of the caller's receipts that one call reads.
const maxScan = 10_000

// SessionPack returns the tools.
func SessionPack(o SessionOptions) *builtin.Pack {
	s := &sessions{o}
	return &builtin.Pack{Name: "sessions", Tools: []builtin.Tool{s.create(), s.list(), s.history(), s.delete()}}
}

type sessions struct{ SessionOptions }

// Session is a session as the tools show it.
type Session struct {
	ID       string     `json:"id" jsonschema:"name of the session"`
	Calls    int        `json:"calls" jsonschema:"its calls among the latest calls of the caller"`
	Used     time.Time  `json:"used" jsonschema:"when it was last used"`
	Language string     `json:"language,omitempty" jsonschema:"language of the program that last ran in it; missing if no program left variables"`
	Engine   string     `json:"engine,omitempty" jsonschema:"engine that can read the variables"`
	Bytes    int64      `json:"bytes,omitempty" jsonschema:"size of the variables"`
	Runs     int        `json:"runs,omitempty" jsonschema:"programs that ran in it"`
	Expires  *time.Time `json:"expires,omitempty" jsonschema:"when the variables are deleted if no program uses them"`
}

func codeSession(info session.Info) Session {
	s := Session{ID: info.ID, Used: info.Used, Language: info.Language, Engine: info.Engine, Bytes: info.Bytes, Runs: info.Runs}
	if !info.Expires.IsZero() {
		s.Expires = &info.Expires
	}
	return s
}

// Sessions is the value of sessions:list.
type Sessions struct {
	Sessions []Session `json:"sessions" jsonschema:"the sessions, last used first"`
}

// SessionID names a session in arguments.
type SessionID struct {
	ID string `json:"id" jsonschema:"name of the session, as sessions:list shows it"`
}

const maxID = 64

func definition(name, title, description string, hints toolroom.Hints, example map[string]any) toolroom.Tool {
	return builtin.Define("sessions:"+name, "sessions", title, description, hints, example)
}

// SessionListArgs are the arguments of sessions:list.
type SessionListArgs struct {
	Limit int `json:"limit,omitempty" jsonschema:"the most sessions to return"`
}

func (s *sessions) list() builtin.Tool {
	return builtin.MustTool(builtin.Spec[SessionListArgs, Sessions]{
		Tool: definition("list", "List sessions", "List your sessions: which conversations you have, when each was last used, how often, and which keep variables of programs.",
			builtin.Hints(true, false, false), map[string]any{}),
		Arguments: map[string]builtin.Property{"limit": {"minimum": 1, "maximum": 500, "default": 50}},
		Run: func(ctx context.Context, req *source.Request, in SessionListArgs) (Sessions, []toolroom.Content, error) {
			all, err := s.all(ctx, req.Identity)
			if err != nil {
				return Sessions{}, nil, err
			}
			out, text := Sessions{Sessions: all[:min(len(all), cmp.Or(in.Limit, 50))]}, ""
			for _, one := range out.Sessions {
				text += fmt.Sprintf("%s: %d calls, last used %s", one.ID, one.Calls, one.Used.UTC().Format(time.RFC3339))
				if one.Engine != "" {
					text += fmt.Sprintf("; variables of %s (%d bytes)", one.Language, one.Bytes)
				}
				text += "\n"
			}
			return out, builtin.Text(cmp.Or(text, "There are no sessions.")), nil
		},
	})
}

// all returns the sessions of a caller, last used first.
func (s *sessions) all(ctx context.Context, who toolroom.Identity) ([]Session, error) {
	kept, err := s.Sessions.List(identity.Owner(who))
	if err != nil {
		return nil, err
	}
	found := map[string]*Session{}
	for _, info := range kept {
		one := codeSession(info)
		found[info.ID] = &one
	}
	_, err = s.scan(ctx, who, 0, func(r *toolroom.Receipt) bool {
		for _, id := range sessionNames(r) {
			one := found[id]
			if one == nil {
				one = &Session{ID: id}
				found[id] = one
			}
			one.Calls++
			if r.Started.After(one.Used) {
				one.Used = r.Started
			}
		}
		return true
	})
	all := []Session{}
	for _, one := range found {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b Session) int { return cmp.Or(b.Used.Compare(a.Used), strings.Compare(a.ID, b.ID)) })
	return all, err
}

// scan calls visit with the caller's receipts, newest first, until visit returns false. It
// returns the number before which a later scan continues, or zero at the end.
func (s *sessions) scan(ctx context.Context, who toolroom.Identity, before int64, visit func(*toolroom.Receipt) bool) (int64, error) {
	for range maxScan / receipt.MaxLimit {
		page, err := s.Receipts(ctx, toolroom.ReceiptQuery{Subject: who.Key(), ReachedBy: &who, BeforeSeq: before, Limit: receipt.MaxLimit})
		if err != nil {
			return 0, err
		}
		for _, r := range page {
			before = r.Seq
			if !visit(r) {
				return before, nil
			}
		}
		if len(page) < receipt.MaxLimit {
			return 0, nil
		}
	}
	return before, nil
}

// sessionNames returns the sessions to which a call belongs: that of the conversation and that
// of the program.
func sessionNames(r *toolroom.Receipt) []string {
	var ids []string
	if r.Session != "" {
		ids = append(ids, r.Session)
	}
	if r.Tool != codeTool {
		return ids
	}
	var args struct {
		Session string `json:"session"`
	}
	if err := json.Unmarshal(r.Arguments, &args); err == nil && args.Session != "" && args.Session != r.Session {
		ids = append(ids, args.Session)
	}
	return ids
}

// HistoryArgs are the arguments of sessions:history.
type HistoryArgs struct {
	ID     string `json:"id,omitempty" jsonschema:"name of the session; the default is the session of this call"`
	Limit  int    `json:"limit,omitempty" jsonschema:"the most calls to return"`
	Before int64  `json:"before,omitempty" jsonschema:"continue with older calls: next of the previous result"`
}

// History is the value of sessions:history.
type History struct {
	ID    string  `json:"id" jsonschema:"name of the session"`
	Calls []Entry `json:"calls" jsonschema:"its calls, newest first"`
	Next  int64   `json:"next,omitempty" jsonschema:"pass it as before to get older calls; missing if there are none"`
}

// Entry is one call of a session.
type Entry struct {
	Call      string          `json:"call" jsonschema:"id of the call"`
	Parent    string          `json:"parent,omitempty" jsonschema:"the call that made it"`
	Tool      string          `json:"tool" jsonschema:"the tool"`
	Arguments json.RawMessage `json:"arguments,omitempty" jsonschema:"the arguments, without secrets"`
	Status    string          `json:"status" jsonschema:"how it ended"`
	Result    string          `json:"result,omitempty" jsonschema:"beginning of the result"`
	Error     string          `json:"error,omitempty" jsonschema:"why it failed"`
	Started   time.Time       `json:"started" jsonschema:"when it started"`
}

// maxArguments is the longest text of arguments in a history.
const maxArguments = 2000

func (s *sessions) history() builtin.Tool {
	return builtin.MustTool(builtin.Spec[HistoryArgs, History]{
		Tool: definition("history", "Show a session's history", "Show the history of a session: what we did in it, the previous tool calls with arguments, beginnings of results, and errors, newest first.",
			builtin.Hints(true, false, false), map[string]any{"id": "work", "limit": 5}),
		Arguments: map[string]builtin.Property{
			"id": {"minLength": 1, "maxLength": 200}, "limit": {"minimum": 1, "maximum": 200, "default": 20}, "before": {"minimum": 1},
		},
		Run: func(ctx context.Context, req *source.Request, in HistoryArgs) (History, []toolroom.Content, error) {
			out := History{ID: cmp.Or(in.ID, req.Session), Calls: []Entry{}}
			if out.ID == "" {
				return out, nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "this call belongs to no session; name one").WithHint("list the sessions: sessions:list")
			}
			var labels []taint.Label
			next, err := s.scan(ctx, req.Identity, in.Before, func(r *toolroom.Receipt) bool {
				if r.ID == req.Call || !slices.Contains(sessionNames(r), out.ID) {
					return true
				}
				out.Calls = append(out.Calls, entry(r))
				labels = append(labels, taint.LabelsOf(taintLabels(r.Labels), r.Tool)...)
				return len(out.Calls) < cmp.Or(in.Limit, 20)
			})
			out.Next = next
			if err != nil || len(out.Calls) == 0 && next == 0 && in.Before == 0 && s.isUnknown(req.Identity, out.ID) {
				return out, nil, cmp.Or(err, error(toolroom.Errorf(toolroom.CodeNotFound, "session %.80q not found", out.ID).WithHint("list the sessions: sessions:list")))
			}
			s.Taint(ctx, labels...)
			return out, builtin.Text(out.text()), nil
		},
	})
}

// isUnknown reports whether a session has no variables of programs.
func (s *sessions) isUnknown(who toolroom.Identity, id string) bool {
	kept, err := s.Sessions.List(identity.Owner(who))
	return err == nil && !slices.ContainsFunc(kept, func(info session.Info) bool { return info.ID == id })
}

// taintLabels returns the taint labels among the labels of a receipt.
func taintLabels(labels []string) []string {
	return slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return l != taint.Untrusted && l != taint.Private })
}

func entry(r *toolroom.Receipt) Entry {
	e := Entry{Call: r.ID, Parent: r.Parent, Tool: r.Tool, Arguments: r.Arguments, Status: string(r.Status), Result: strings.ToValidUTF8(r.Preview, ""), Started: r.Started}
	if len(e.Arguments) > maxArguments {
		cut, _ := json.Marshal(strings.ToValidUTF8(string(e.Arguments[:maxArguments]), "") + "…") // a text can always be encoded
		e.Arguments = cut
	}
	if r.Error != nil {
		e.Error = r.Error.Message
	}
	return e
}

func (h History) text() string {
	var b strings.Builder
	for _, e := range h.Calls {
		fmt.Fprintf(&b, "%s %s %s: %s\n", e.Started.UTC().Format(time.RFC3339), e.Tool, cmp.Or(string(e.Arguments), "{}"), e.Status)
		if told := cmp.Or(e.Error, e.Result); told != "" {
			fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(strings.TrimSpace(told), "\n", "\n  "))
		}
	}
	if h.Next > 0 {
		fmt.Fprintf(&b, "There are older calls: before=%d\n", h.Next)
	}
	return cmp.Or(b.String(), "The session "+h.ID+" has made no calls.")
}

// SessionCreateArgs are the arguments of sessions:create.
type SessionCreateArgs struct {
	ID   string `json:"id,omitempty" jsonschema:"name of the new session: letters, digits, dots, underscores and hyphens; a new one is made up if left out"`
	From string `json:"from,omitempty" jsonschema:"a session whose variables are copied"`
}

func (s *sessions) create() builtin.Tool {
	return builtin.MustTool(builtin.Spec[SessionCreateArgs, Session]{
		Tool: definition("create", "Create a session", "Create, start or fork a session: a new name under which programs of code:execute keep their variables, empty or copied from another session.",
			builtin.Hints(false, false, false), map[string]any{"id": "experiment-4"}),
		Arguments: map[string]builtin.Property{"id": {"minLength": 1, "maxLength": maxID}, "from": {"minLength": 1, "maxLength": maxID}},
		Run: func(ctx context.Context, req *source.Request, in SessionCreateArgs) (Session, []toolroom.Content, error) {
			id := cmp.Or(in.ID, "session-"+strings.ToLower(rand.Text()[:10]))
			var info session.Info
			var err error
			if in.From != "" {
				info, err = s.Sessions.Fork(ctx, identity.Owner(req.Identity), in.From, id)
			} else {
				info, err = s.Sessions.Create(ctx, identity.Owner(req.Identity), id)
			}
			return codeSession(info), builtin.Text(fmt.Sprintf("Created the session %s. Pass it to code:execute as session.", id)), err
		},
	})
}

// SessionDeleted is the value of sessions:delete.
type SessionDeleted struct {
	ID string `json:"id" jsonschema:"name of the session"`
}

func (s *sessions) delete() builtin.Tool {
	return builtin.MustTool(builtin.Spec[SessionID, SessionDeleted]{
		Tool: definition("delete", "Delete a session", "Delete, close or clean up a session with the variables that its programs keep. Its history stays.",
			builtin.Hints(false, true, false), map[string]any{"id": "experiment-4"}),
		Arguments: map[string]builtin.Property{"id": {"minLength": 1, "maxLength": maxID}},
		Predict: func(*source.Request, SessionID) []toolroom.Effect {
			return []toolroom.Effect{{Kind: toolroom.EffectDestroy}}
		},
		Run: func(ctx context.Context, req *source.Request, in SessionID) (SessionDeleted, []toolroom.Content, error) {
			return SessionDeleted(in), builtin.Text("Deleted " + in.ID + "."), s.Sessions.Delete(ctx, identity.Owner(req.Identity), in.ID)
		},
	})
}
