package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/server"
)

// serving describes a running server.
type serving struct {
	PID int `json:"pid"`
	// Address is empty while the server starts.
	Address string    `json:"address,omitempty"`
	Started time.Time `json:"started"`
}

// status is what toolroom status prints: what runs and what needs a person.
type status struct {
	Version string `json:"version"`
	Home    string `json:"home"`
	Config  string `json:"config,omitempty"`
	// Server is the server that answered; nil if none did. Others reports that a server runs
	// that does not answer, because it has another version or config.
	Server  *serving `json:"server"`
	Others  bool     `json:"others,omitempty"`
	Sources int      `json:"sources"`
	Tools   int      `json:"tools"`
	// Unlisted are the sources that have not been started and whose tools are not known.
	Unlisted int `json:"unlisted,omitempty"`
	// Down are the sources that do not work. Without a server, sources have not been tried.
	Down      []downSource   `json:"down"`
	Approvals int            `json:"approvals"`
	Review    map[string]int `json:"review"`
	// Sets describes what the clients of each tool set see of the tools that are known now.
	Sets     []server.Listing `json:"sets,omitempty"`
	NeedsYou []need           `json:"needs_you"`
}

type downSource struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Error string `json:"error,omitempty"`
}

// need is something that a person should do.
type need struct {
	What string `json:"what"`
	Try  string `json:"try"`
}

func (a *cli) statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show what is running and what needs your attention",
		Long: `Show in one line whether a server is running, its sources and tools, and what needs your
attention: approvals, sources that are down, tool definitions to review, and receipts
that cannot be stored.`,
		Example: `  toolroom status
  toolroom status --json`,
		Args: arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			s, err := a.status(ctx, r)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.screen.json(s)
			}
			return a.screen.printf("%s\n", oneLine(s.summary()))
		}),
	}
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) status(ctx context.Context, r *app.App) (*status, error) {
	file, err := a.findConfig()
	if err != nil {
		return nil, err
	}
	pending, err := r.Approvals(ctx, toolroom.ApprovalPending)
	if err != nil {
		return nil, err
	}
	s := &status{
		Version: a.Version, Home: a.home, Config: file, Server: a.serving, Approvals: len(pending),
		Down: []downSource{}, Review: r.Quarantined(), NeedsYou: []need{},
	}
	s.Others = s.Server == nil && a.home != "" && serverRuns(a.home)
	if err := r.Parts().Recorder.Ready(); err != nil {
		s.NeedsYou = append(s.NeedsYou, need{"all calls are refused: " + err.Error(), "toolroom doctor"})
	}
	if s.Approvals > 0 {
		s.NeedsYou = append(s.NeedsYou, need{count(s.Approvals, "approval"), "toolroom approve"})
	}
	var never []string
	for _, source := range r.Sources() {
		s.Sources++
		s.Tools += source.Tools
		if !source.Listed && source.State == "idle" {
			s.Unlisted++
			never = append(never, source.Name)
		}
		var try string
		switch source.State {
		case "broken", "failing", "backing off":
			try = "toolroom sources test " + source.Name
		case "waiting for authorisation":
			try = "toolroom sources login " + source.Name
		default:
			continue
		}
		s.Down = append(s.Down, downSource{source.Name, source.State, source.Error})
		s.NeedsYou = append(s.NeedsYou, need{"source " + source.Name + " is " + source.State, try})
	}
	if len(never) == 1 {
		s.NeedsYou = append(s.NeedsYou, need{"source " + never[0] + " has never listed its tools", "toolroom sources test " + never[0]})
	} else if len(never) > 1 {
		s.NeedsYou = append(s.NeedsYou, need{count(len(never), "source") + " have never listed their tools", "toolroom doctor"})
	}
	if len(r.Config().Sets) > 0 {
		all, err := server.Listings(r)
		if err != nil {
			return nil, err
		}
		s.Sets = all[1:]
	}
	for _, name := range slices.Sorted(maps.Keys(s.Review)) {
		s.NeedsYou = append(s.NeedsYou, need{
			count(s.Review[name], "definition") + " of " + name + " to release", "toolroom tool diff '" + name + ":*'",
		})
	}
	return s, nil
}

func (s *status) summary() string {
	var b strings.Builder
	switch {
	case s.Server != nil && s.Server.Address != "":
		fmt.Fprintf(&b, "server at %s since %s", s.Server.Address, formatTime(s.Server.Started))
	case s.Server != nil:
		b.WriteString("the server is starting")
	case s.Others:
		b.WriteString("a server with another version or config runs")
	default:
		b.WriteString("no server runs (toolroom serve)")
	}
	fmt.Fprintf(&b, "; %s", count(s.Sources, "source"))
	if s.Sources > 0 { // built-in tools are of none
		fmt.Fprintf(&b, " with %s%s", count(s.Tools, "tool"), s.unlisted())
	}
	b.WriteString("; ")
	for _, l := range s.Sets {
		fmt.Fprintf(&b, "set %s: %s, %s; ", l.Set, count(l.Tools, "tool"), tokens(l.Tokens))
	}
	if len(s.NeedsYou) == 0 {
		return b.String() + "nothing needs you"
	}
	needs := make([]string, len(s.NeedsYou))
	for i, n := range s.NeedsYou {
		needs[i] = n.What + " (" + n.Try + ")"
	}
	return b.String() + "needs you: " + strings.Join(needs, ", ")
}

// unlisted returns a note about sources that have not been listed yet, because sources start
// when they are used or with the server.
func (s *status) unlisted() string {
	if s.Unlisted == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d not started)", s.Unlisted)
}

// servingNow describes this process as a server.
func servingNow(address string, started time.Time) *serving {
	return &serving{PID: os.Getpid(), Address: address, Started: started}
}
