package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/receipt"
)

func (a *cli) callsCommand() *cobra.Command {
	var filter callFilter
	var code, label string
	var limit int
	var before int64
	var follow bool
	c := &cobra.Command{
		Use:   "calls",
		Short: "Show the receipts of calls",
		Example: `  toolroom calls --status error --limit 20
  toolroom calls --by ann --label untrusted --since 24h
  toolroom calls --follow --json
  toolroom calls show call_4xk2`,
		Args: arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			if limit < 1 || limit > receipt.MaxLimit {
				return usage("--limit 50", "--limit must be between 1 and %d", receipt.MaxLimit)
			}
			q, err := filter.query()
			if err != nil {
				return err
			}
			if code != "" {
				if err := oneOf("--code", code, codeNames()...); err != nil {
					return err
				}
			}
			if follow && before != 0 {
				return usage("toolroom calls --follow", "--follow shows new calls and --cursor old ones; use one of them")
			}
			q.Code, q.Label, q.BeforeSeq, q.Limit = toolroom.Code(code), label, before, limit
			receipts, err := r.Receipts(ctx, q)
			switch {
			case err != nil:
				return err
			case follow:
				return a.followCalls(ctx, r, q, receipts)
			case a.asJSON:
				return a.screen.json(orEmpty(receipts))
			case len(receipts) == 0:
				a.screen.say("No matching receipts.")
				return a.suggestFilters(ctx, r, filter)
			}
			if err := a.printCalls(ctx, r, receipts); err != nil {
				return err
			}
			if len(receipts) == limit {
				a.screen.say("for older ones add --cursor %d", receipts[len(receipts)-1].Seq)
			}
			return nil
		}),
	}
	filter.flags(a, c, "")
	f := c.Flags()
	f.StringVar(&filter.by, "by", "", "only calls of this subject; local is the operator")
	f.StringVar(&code, "code", "", "only calls with this error code")
	f.StringVar(&label, "label", "", "only calls with this label")
	f.Int64Var(&before, "cursor", 0, "cursor of the page, which the previous page prints")
	f.IntVar(&limit, "limit", receipt.DefaultLimit, "maximum number of receipts")
	f.BoolVar(&follow, "follow", false, "keep printing calls as they end, until Ctrl-C")
	completeValues(c, "code", codeNames()...)
	a.jsonFlag(c, "print JSON; with --follow, one receipt per line")
	c.AddCommand(a.callsShowCommand(), a.callsStatsCommand(), a.callsVerifyCommand())
	return c
}

// callFilter selects calls by flags.
type callFilter struct{ tool, environment, status, by, surface, since, until string }

// flags adds the flags. The calls since a time or age are the default.
func (f *callFilter) flags(a *cli, c *cobra.Command, since string) {
	flags := c.Flags()
	flags.StringVar(&f.tool, "tool", "", "only calls of this tool; @2 selects a version")
	flags.StringVar(&f.environment, "env", "", "only calls in this environment (tools without versions have none)")
	flags.StringVar(&f.status, "status", "", "only calls with this status: ok, error, denied, cancelled or timeout")
	flags.StringVar(&f.surface, "via", "", "only calls from this surface: mcp, http, cli, ...")
	flags.StringVar(&f.since, "since", since, "only calls started at or after: a date, a time or an age such as 24h")
	flags.StringVar(&f.until, "until", "", "only calls that started before")
	completeValues(c, "status", statuses()...)
	completeValues(c, "via", surfaces...)
	a.completeFlag(c, "tool", toolCandidates)
}

func (f *callFilter) query() (toolroom.ReceiptQuery, error) {
	q := toolroom.ReceiptQuery{Environment: f.environment, Status: toolroom.Status(f.status), Subject: f.by, Surface: f.surface}
	if f.status != "" {
		if err := oneOf("--status", f.status, statuses()...); err != nil {
			return q, err
		}
	}
	if f.surface != "" {
		if err := oneOf("--via", f.surface, surfaces...); err != nil {
			return q, err
		}
	}
	if strings.ContainsAny(f.tool, "*?") {
		return q, usage("list the tools of a namespace: toolroom tools --namespace NAME", "--tool takes the id of one tool, and %q is a pattern", f.tool)
	}
	between, err := parseSelection(f.since, f.until)
	if err != nil {
		return q, err
	}
	q.Since, q.Until = between.Since, between.Until
	return q, q.Select(f.tool)
}

// suggestFilters prints corrections for the values of a filter that no recent call has, because
// they are probably misspelled.
func (a *cli) suggestFilters(ctx context.Context, r *app.App, f callFilter) error {
	recent, err := r.Receipts(ctx, toolroom.ReceiptQuery{Limit: receipt.MaxLimit})
	if err != nil {
		return err
	}
	tool, version, _ := strings.Cut(f.tool, "@")
	for _, one := range []struct {
		flag, typed, after string
		of                 func(*toolroom.Receipt) string
	}{
		{"--tool", tool, version, func(r *toolroom.Receipt) string { tool, _, _ := strings.Cut(r.Tool, "@"); return tool }},
		{"--env", f.environment, "", func(r *toolroom.Receipt) string { return r.Environment }},
		{"--by", f.by, "", func(r *toolroom.Receipt) string { return r.Identity.Key() }},
	} {
		known := textsOf(recent, one.of)
		if one.flag == "--by" { // known even if it has made no call
			known = append(known, toolroom.Identity{}.Key())
		}
		slices.Sort(known)
		known = slices.Compact(known)
		if one.typed == "" || slices.Contains(known, one.typed) {
			continue
		}
		if near, ok := nearestOrPrefix(one.typed, known); ok {
			if one.after != "" {
				near += "@" + one.after
			}
			a.screen.say("did you mean %s %s?", one.flag, near)
		}
	}
	return nil
}

// surfaces are the values of [toolroom.Receipt.Surface].
var surfaces = []string{
	"mcp", "http", "cli", "go", "chain", "code", "agent", "cron", "page", "replay",
	receipt.SurfaceTest, receipt.SurfaceShadow, receipt.SurfaceRelease, receipt.SurfaceAdmin,
}

func codeNames() []string {
	return textsOf(toolroom.Codes(), func(c toolroom.Code) string { return string(c) })
}

// nearestOrPrefix returns the known name that is nearest to typed, or else the only one that
// begins with it: a short text, such as cl for cli, is too short for [nearest.Of].
func nearestOrPrefix(typed string, known []string) (near string, ok bool) {
	if near, ok = nearest.Of(typed, known); ok {
		return near, true
	}
	for _, name := range known {
		if strings.HasPrefix(name, typed) {
			if near != "" {
				return "", false
			}
			near = name
		}
	}
	return near, near != ""
}

func statuses() []string {
	return []string{
		string(toolroom.StatusOK), string(toolroom.StatusError), string(toolroom.StatusDenied),
		string(toolroom.StatusCancelled), string(toolroom.StatusTimeout),
	}
}

// orEmpty returns a non-nil list, which JSON encodes as [] if it is empty.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (a *cli) printCalls(ctx context.Context, r *app.App, receipts []*toolroom.Receipt) error {
	short := a.screen.shortIDs(textsOf(receipts, func(r *toolroom.Receipt) string { return r.ID }))
	rows := make([][]string, len(receipts))
	for i, one := range receipts {
		rows[i] = a.callRow(one)
		rows[i][0] = short[one.ID]
		if answer := laterAnswer(ctx, r, one); answer != "" {
			rows[i][len(rows[i])-1] = answer
		}
	}
	return a.screen.table([]string{"CALL", "STARTED", "TOOL", "STATUS", "TOOK", "BY", "VIA", "RESULT"}, rows)
}

// laterAnswer says how a person has answered since a call was denied because it needed an approval,
// or returns "". The receipt of the call itself never changes.
func laterAnswer(ctx context.Context, r *app.App, one *toolroom.Receipt) string {
	id := one.PendingApproval
	if id == "" {
		return ""
	}
	p, err := r.Approval(ctx, id)
	if err != nil || p.State == toolroom.ApprovalPending {
		return ""
	}
	text := id + " is now " + string(p.State)
	if p.By != "" {
		text += " by " + p.By
	}
	if p.State == toolroom.ApprovalApproved && !p.Used.IsZero() {
		text += ", and the repeated call has run"
	}
	return text
}

func (a *cli) callRow(r *toolroom.Receipt) []string {
	text := r.Preview
	if r.Error != nil {
		text = r.Error.Message
	}
	tool := r.Tool
	if r.Release != nil && r.Release.Version > 0 && !strings.Contains(tool, "@") {
		tool += "@" + strconv.Itoa(r.Release.Version)
	}
	return []string{r.ID, a.screen.when(r.Started), tool, string(r.Status), formatDuration(r.Usage.Run), r.Identity.String(), r.Surface, truncate(oneLine(text), cmp.Or(a.screen.textWidth(), 80))}
}

// followPause is how often followCalls checks for new receipts.
const followPause = 300 * time.Millisecond

// followCalls prints the existing receipts, oldest first, and then new ones.
func (a *cli) followCalls(ctx context.Context, r *app.App, q toolroom.ReceiptQuery, receipts []*toolroom.Receipt) error {
	slices.Reverse(receipts)
	q.AfterSeq, q.Limit = toolroom.ReceiptsFromStart, receipt.MaxLimit
	for {
		for _, one := range receipts {
			q.AfterSeq = one.Seq
			var err error
			if a.asJSON {
				err = a.screen.jsonLine(one)
			} else {
				row := a.callRow(one)
				err = a.screen.printf("%s  %s  %-30s  %-9s  %8s  %s\n", row[0], row[1], row[2], row[3], row[4], row[7])
			}
			if err != nil {
				return err
			}
		}
		if len(receipts) < receipt.MaxLimit {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(followPause):
			}
		}
		var err error
		if receipts, err = r.Receipts(ctx, q); err != nil {
			return err
		}
	}
}

func (a *cli) callsShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "show CALL",
		Short:   "Show the receipt of one call",
		Example: "  toolroom calls show call_4xk2 --json",
		Args:    arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			id, err := receiptID(ctx, r, args[0])
			if err != nil {
				return err
			}
			one, err := r.Receipt(ctx, id)
			if err != nil {
				return err
			}
			return show(a, one, func(one *toolroom.Receipt) error { return a.printReceipt(one, laterAnswer(ctx, r, one)) })
		}),
	}
	a.jsonFlag(c, "print JSON")
	return c
}

// printReceipt prints a receipt, and how a person has answered since.
func (a *cli) printReceipt(r *toolroom.Receipt, answer string) error {
	failure := ""
	if r.Error != nil {
		failure = string(r.Error.Code) + ": " + r.Error.Message
	}
	artifacts := ""
	for _, handle := range r.Artifacts {
		artifacts += "toolroom artifact read " + handle + "\n"
	}
	redacted := ""
	if r.Redacted {
		redacted = "arguments, result and error text were removed"
	}
	wait := ""
	if r.Usage.Wait > 0 {
		wait = formatDuration(r.Usage.Wait)
	}
	return a.screen.fields(
		"call", r.ID,
		"parent", r.Parent,
		"tool", r.Tool,
		"status", string(r.Status),
		"error", failure,
		"since then", answer,
		"warnings", warningLines(r.Warnings),
		"effects", string(r.Effects),
		"started", formatTime(r.Started),
		"version", servedBy(r),
		"queued", formatDuration(r.Usage.Queue),
		"took", formatDuration(r.Usage.Run),
		"waited for a person", wait,
		"by", r.Identity.String(),
		"via", r.Surface,
		"session", r.Session,
		"key", r.Key,
		"arguments", indentJSON(r.Arguments),
		"result", r.Preview,
		"logs", logLines(r),
		"artifacts", artifacts,
		"labels", strings.Join(r.Labels, ", "),
		"redacted", redacted,
		"tainted by", strings.Join(r.Reach, ", "),
		"rule", r.Rule,
		"approval", r.Approval,
		"hash", r.Hash,
	)
}

// servedBy describes the version that served a call.
func servedBy(r *toolroom.Receipt) string {
	if r.Release == nil {
		return ""
	}
	return fmt.Sprintf("%d (%.12s) in %s", r.Release.Version, r.Release.Digest, r.Environment)
}

// logLines formats what a tool logged, one line each.
func logLines(r *toolroom.Receipt) string {
	var lines []string
	for _, l := range r.Logs {
		line := l.Time.Local().Format("15:04:05.000") + " " + l.Level + ": " + strings.TrimRight(l.Message, "\n")
		if len(l.Data) > 0 {
			line += " " + string(l.Data)
		}
		lines = append(lines, line)
	}
	if r.LogsHidden > 0 {
		lines = append(lines, fmt.Sprintf("and %s that were not kept", count(r.LogsHidden, "line")))
	}
	return strings.Join(lines, "\n")
}

// warningLines formats warnings, one per line.
func warningLines(warnings []toolroom.Warning) string {
	lines := make([]string, len(warnings))
	for i, w := range warnings {
		lines[i] = string(w.Code) + ": " + w.Message
	}
	return strings.Join(lines, "\n")
}

func (a *cli) callsVerifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "verify",
		Short:   "Verify that no receipt was changed or removed",
		Example: "  toolroom calls verify",
		Args:    arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			return a.verifyHome(ctx, r, "", "")
		}),
	}
	a.jsonFlag(c, "print JSON")
	return c
}
