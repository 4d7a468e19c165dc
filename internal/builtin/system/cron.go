package system

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/schedule"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/source"
)

// CronOptions configure the pack of schedules.
type CronOptions struct {
	Schedules *schedule.Service
	// Zone is the time zone of schedules that name none; empty is UTC.
	Zone string
	// Surface returns the surface of the call around ctx, and Labels its taint labels.
	Surface func(ctx context.Context) string
	Labels  func(ctx context.Context) []taint.Label
}

// CronPack returns the tools.
func CronPack(o CronOptions) *builtin.Pack {
	c := &cronTools{o}
	return &builtin.Pack{Name: "cron", Tools: []builtin.Tool{c.create(), c.list(), c.trigger(), c.pause(), c.resume(), c.delete()}}
}

type cronTools struct{ CronOptions }

// CronCreateArgs are the arguments of cron:create.
type CronCreateArgs struct {
	Schedule  string          `json:"schedule" jsonschema:"when: a cron expression (minute hour day month weekday), such as 0 9 * * MON-FRI; or @hourly, @daily, @weekly, @monthly; or @every 90m; or one time, such as 2026-12-01T09:00 or @in 90m"`
	Tool      string          `json:"tool" jsonschema:"the tool to call"`
	Arguments json.RawMessage `json:"arguments,omitempty" jsonschema:"its arguments"`
	Name      string          `json:"name,omitempty" jsonschema:"what it is for"`
	Timezone  string          `json:"timezone,omitempty" jsonschema:"time zone of the schedule, such as Europe/Berlin; the default is that of the config, else UTC"`
	Missed    string          `json:"missed,omitempty" jsonschema:"runs whose time passes while Toolroom is not running: once makes up for all with one call, skip drops them, all makes up for them one by one (at most 100)"`
	Timeout   int             `json:"timeout,omitempty" jsonschema:"time limit of a call in milliseconds; the default is that of the tool"`
}

// Schedule is a schedule as the tools show it.
type Schedule struct {
	ID        string          `json:"id" jsonschema:"id of the schedule"`
	Name      string          `json:"name,omitempty" jsonschema:"what it is for"`
	Schedule  string          `json:"schedule" jsonschema:"when it runs"`
	Timezone  string          `json:"timezone" jsonschema:"its time zone"`
	Tool      string          `json:"tool" jsonschema:"the tool that it calls"`
	Arguments json.RawMessage `json:"arguments,omitempty" jsonschema:"the arguments"`
	Missed    string          `json:"missed" jsonschema:"what happens to missed runs"`
	As        string          `json:"as" jsonschema:"the identity that its calls have"`
	Created   time.Time       `json:"created" jsonschema:"when it was made"`
	Next      string          `json:"next,omitempty" jsonschema:"time of the next run, in its time zone; missing if there is none any more, or while it is paused"`
	Paused    string          `json:"paused,omitempty" jsonschema:"since when it is paused; missing if it is not"`
	Runs      int             `json:"runs" jsonschema:"number of calls so far"`
	Dropped   int             `json:"dropped" jsonschema:"number of runs that were missed, or left out because the one before had not ended"`
	Last      *Last           `json:"last,omitempty" jsonschema:"the last run"`
}

// Last is the last call of a schedule.
type Last struct {
	Due     string `json:"due" jsonschema:"when it was due"`
	Call    string `json:"call,omitempty" jsonschema:"id of the call; missing if none was made"`
	Status  string `json:"status,omitempty" jsonschema:"queued, running, waiting (for a person), or how the call ended"`
	Problem string `json:"problem,omitempty" jsonschema:"why it failed or was dropped"`
}

// Schedules is the value of cron:list.
type Schedules struct {
	Schedules []Schedule `json:"schedules" jsonschema:"the schedules, oldest first"`
}

// CronID names a schedule in arguments.
type CronID struct {
	ID string `json:"id" jsonschema:"id of the schedule, as cron:list shows it"`
}

// Triggered is the value of cron:trigger.
type Triggered struct {
	ID   string `json:"id" jsonschema:"id of the schedule"`
	Call string `json:"call" jsonschema:"id of the call"`
}

// CronDeleted is the value of cron:delete.
type CronDeleted struct {
	ID   string `json:"id" jsonschema:"id of the schedule"`
	Name string `json:"name,omitempty" jsonschema:"what it was for"`
	Tool string `json:"tool" jsonschema:"the tool that it called"`
}

func cronDefinition(name, title, description string, hints toolroom.Hints, example map[string]any) toolroom.Tool {
	return builtin.Define("cron:"+name, "cron", title, description, hints, example)
}

func (c *cronTools) create() builtin.Tool {
	tool := cronDefinition("create", "Schedule a call",
		"Schedule a tool call for later or for regular times: every day at nine, on Mondays, every ten minutes, every night, or once, in an hour (@in 1h), later today or tomorrow, as a reminder, a check done again or a recurring job. It runs with your permissions of that time.",
		builtin.Hints(false, false, false), map[string]any{
			"schedule": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "name": "morning note", "tool": "memory:append",
			"arguments": map[string]any{"namespace": "diary", "content": "A new working day."},
		})
	return builtin.MustTool(builtin.Spec[CronCreateArgs, Schedule]{
		Tool: tool,
		Arguments: map[string]builtin.Property{
			"schedule": {"minLength": 1, "maxLength": 200}, "tool": {"minLength": 1, "maxLength": 300}, "arguments": {"type": "object"},
			"name": {"maxLength": 200}, "timezone": {"maxLength": 64},
			"missed":  {"enum": []string{string(schedule.MissedOnce), string(schedule.MissedSkip), string(schedule.MissedAll)}, "default": string(schedule.MissedOnce)},
			"timeout": {"minimum": 1, "maximum": 24 * 60 * 60 * 1000},
		},
		Preview: func(_ context.Context, req *source.Request, in CronCreateArgs) (source.Preview, error) {
			text := fmt.Sprintf("calls %s with %s as %s, at the times of %q (%s)", in.Tool, cmp.Or(string(in.Arguments), "{}"), req.Identity, in.Schedule, c.zone(in))
			return source.Preview{Effects: []string{text}}, nil
		},
		Run: func(ctx context.Context, req *source.Request, in CronCreateArgs) (Schedule, []toolroom.Content, error) {
			if err := c.rejectNested(ctx); err != nil {
				return Schedule{}, nil, err
			}
			// Such a call fails each time that it runs, also under another spelling of its name;
			// the usual one is refused at once.
			if in.Tool == "cron:create" || in.Tool == "cron:trigger" {
				return Schedule{}, nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "a scheduled call cannot schedule or trigger calls, so that %s cannot be scheduled", in.Tool).
					WithHint("schedule the call itself, with a schedule that repeats, such as \"@every 1h\"")
			}
			made, err := c.Schedules.Create(ctx, schedule.Schedule{
				Name: in.Name, When: in.Schedule, Zone: c.zone(in), Missed: schedule.Missed(cmp.Or(in.Missed, string(schedule.MissedOnce))), Labels: c.Labels(ctx),
				Call: toolroom.Call{
					Tool: in.Tool, Arguments: in.Arguments, Identity: req.Identity, Environment: req.Environment,
					Timeout: time.Duration(in.Timeout) * time.Millisecond,
				},
			})
			if err != nil {
				return Schedule{}, nil, err
			}
			shown, err := c.show(ctx, made)
			return shown, builtin.Text(fmt.Sprintf("Scheduled %s as %s. Next run: %s (%s).", in.Tool, shown.ID, shown.Next, shown.Timezone)), err
		},
	})
}

// rejectNested returns an error inside a scheduled call, which could otherwise create ever more
// schedules.
func (c *cronTools) rejectNested(ctx context.Context) error {
	if c.Surface(ctx) != schedule.Surface {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeDenied, "a scheduled call cannot schedule or trigger calls").
		WithHint("make a schedule that repeats, such as \"@every 1h\", from outside of scheduled calls")
}

func (c *cronTools) zone(in CronCreateArgs) string { return cmp.Or(in.Timezone, c.Zone, "UTC") }

func (c *cronTools) show(ctx context.Context, s *schedule.Schedule) (Schedule, error) {
	out := Schedule{
		ID: s.ID, Name: s.Name, Schedule: s.When, Timezone: s.Zone, Tool: s.Call.Tool, Arguments: s.Call.Arguments, Missed: string(s.Missed),
		As: s.Call.Identity.String(), Created: s.Created, Next: formatInZone(s.Next, s.Zone), Runs: s.Runs, Dropped: s.Dropped,
	}
	if out.Paused = formatInZone(s.Paused, s.Zone); out.Paused != "" {
		out.Next = ""
	}
	if s.Last == nil {
		return out, nil
	}
	out.Last = &Last{Due: formatInZone(s.Last.Due, s.Zone), Call: s.Last.Call, Problem: s.Last.Problem}
	status, problem, err := c.Schedules.Outcome(ctx, s)
	out.Last.Status, out.Last.Problem = status, cmp.Or(out.Last.Problem, problem)
	return out, err
}

// formatInZone formats a time in a zone. The zero time results in an empty text.
func formatInZone(t time.Time, zone string) string {
	if t.IsZero() {
		return ""
	}
	if location, err := time.LoadLocation(zone); err == nil {
		t = t.In(location)
	}
	return t.Format(time.RFC3339)
}

func (c *cronTools) list() builtin.Tool {
	return builtin.MustTool(builtin.Spec[struct{}, Schedules]{
		Tool: cronDefinition("list", "List schedules",
			"List scheduled jobs: which tool calls are planned, when they run next, and how the latest call ended.", builtin.Hints(true, false, false), map[string]any{}),
		Run: func(ctx context.Context, req *source.Request, _ struct{}) (Schedules, []toolroom.Content, error) {
			all, err := c.Schedules.List(ctx, req.Identity)
			out, text := Schedules{Schedules: []Schedule{}}, ""
			for _, s := range all {
				shown, err := c.show(ctx, s)
				if err != nil {
					return out, nil, err
				}
				out.Schedules = append(out.Schedules, shown)
				next := "next " + cmp.Or(shown.Next, "never")
				if shown.Paused != "" {
					next = "paused since " + shown.Paused
				}
				text += fmt.Sprintf("%s: %s %s at %q (%s), %s", strings.TrimSpace(shown.ID+" "+shown.Name), shown.Tool, cmp.Or(string(shown.Arguments), "{}"), shown.Schedule, shown.Timezone, next)
				if shown.Last != nil {
					text += fmt.Sprintf("; last %s %s %s", shown.Last.Due, shown.Last.Status, shown.Last.Problem)
				}
				text += "\n"
			}
			return out, builtin.Text(cmp.Or(text, "Nothing is scheduled.")), err
		},
	})
}

func (c *cronTools) trigger() builtin.Tool {
	tool := cronDefinition("trigger", "Run a schedule now",
		"Run a scheduled job now, without waiting for its time. Its call goes on in the background; see how it ended with cron:list.", builtin.Hints(false, true, true), map[string]any{"id": "cron_4711"})
	return builtin.MustTool(builtin.Spec[CronID, Triggered]{
		Tool: tool, Arguments: idProperty(),
		Run: func(ctx context.Context, req *source.Request, in CronID) (Triggered, []toolroom.Content, error) {
			if err := c.rejectNested(ctx); err != nil {
				return Triggered{}, nil, err
			}
			s, err := c.Schedules.Trigger(ctx, req.Identity, in.ID)
			if err != nil {
				return Triggered{}, nil, err
			}
			return Triggered{s.ID, s.Last.Call}, builtin.Text(fmt.Sprintf("Queued %s as call %s.", s.Call.Tool, s.Last.Call)), nil
		},
	})
}

func (c *cronTools) pause() builtin.Tool {
	tool := cronDefinition("pause", "Pause a schedule", "Pause a scheduled job, such as a daily reminder, for some time: it makes no calls until cron:resume. A call that runs already goes on.",
		builtin.Hints(false, false, false), map[string]any{"id": "cron_4711"})
	return c.switchTool(tool, c.Schedules.Pause, "Paused %s. Go on with cron:resume.")
}

func (c *cronTools) resume() builtin.Tool {
	tool := cronDefinition("resume", "Resume a schedule", "Resume a paused scheduled job: it runs again at its times. Runs whose time passed during the pause are not made up.",
		builtin.Hints(false, false, false), map[string]any{"id": "cron_4711"})
	return c.switchTool(tool, c.Schedules.Resume, "Resumed %s.")
}

// switchTool returns a tool that pauses or resumes a schedule.
func (c *cronTools) switchTool(tool toolroom.Tool, change func(context.Context, toolroom.Identity, string) (*schedule.Schedule, error), done string) builtin.Tool {
	return builtin.MustTool(builtin.Spec[CronID, Schedule]{
		Tool: tool, Arguments: idProperty(),
		Run: func(ctx context.Context, req *source.Request, in CronID) (Schedule, []toolroom.Content, error) {
			s, err := change(ctx, req.Identity, in.ID)
			if err != nil {
				return Schedule{}, nil, err
			}
			shown, err := c.show(ctx, s)
			return shown, builtin.Text(fmt.Sprintf(done, s.ID)), err
		},
	})
}

func (c *cronTools) delete() builtin.Tool {
	tool := cronDefinition("delete", "Delete a schedule", "Stop or cancel a scheduled job, such as a daily reminder: delete the schedule, so that it runs no more. A call that runs already goes on.",
		builtin.Hints(false, true, false), map[string]any{"id": "cron_4711"})
	return builtin.MustTool(builtin.Spec[CronID, CronDeleted]{
		Tool: tool, Arguments: idProperty(),
		Run: func(ctx context.Context, req *source.Request, in CronID) (CronDeleted, []toolroom.Content, error) {
			s, err := c.Schedules.Delete(ctx, req.Identity, in.ID)
			if err != nil {
				return CronDeleted{}, nil, err
			}
			return CronDeleted{s.ID, s.Name, s.Call.Tool}, builtin.Text("Deleted " + s.ID + "."), nil
		},
	})
}

func idProperty() map[string]builtin.Property {
	return map[string]builtin.Property{"id": {"minLength": 1, "maxLength": 100}}
}
