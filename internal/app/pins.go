package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/library"
	"github.com/toolroom/toolroom/internal/pin"
	"github.com/toolroom/toolroom/internal/poison"
	"github.com/toolroom/toolroom/internal/policy"
)

// trust describes how far a source is trusted.
type trust struct {
	pin        string
	quarantine bool
}

// quarantine holds the quarantined tools with the reasons, by source.
type quarantine struct {
	mu      sync.RWMutex
	reasons map[string]map[toolroom.ID]string
}

// set replaces the reasons of a source and reports whether they changed.
func (h *quarantine) set(source string, reasons map[toolroom.ID]string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	news := !maps.Equal(h.reasons[source], reasons)
	if h.reasons == nil {
		h.reasons = map[string]map[toolroom.ID]string{}
	}
	h.reasons[source] = reasons
	return news
}

func (h *quarantine) count(source string) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.reasons[source])
}

// why returns why a source's tool is quarantined, or "" if it is not.
func (h *quarantine) why(source string, id toolroom.ID) string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.reasons[source][id]
}

// quarantineOf returns why for one source, or nil if the source's definitions are never
// quarantined.
func (a *App) quarantineOf(source string, by trust) func(toolroom.ID) string {
	if by.pin != config.PinHold && !by.quarantine {
		return nil
	}
	return func(id toolroom.ID) string { return a.quarantined.why(source, id) }
}

// narrow denies calls of quarantined tools. Neither their old nor their new definition
// reaches a model.
func (h *quarantine) narrow(d policy.Decision, r policy.Request) policy.Decision {
	if d.Effect == toolroom.VerdictDeny {
		return d
	}
	reason := h.why(r.Tool.ID.Namespace, r.Tool.ID.Unversioned())
	if reason == "" {
		return d
	}
	return d.Then(toolroom.PolicyStep{
		Layer: "policy.pin", Effect: toolroom.VerdictDeny, Rule: reason,
		Hint: "a person must review and accept it", CLIHint: "toolroom sources review " + r.Tool.ID.Namespace,
	})
}

// admit compares the source's tools with the pinned definitions and returns the tools that
// may be in the catalog. Of a changed and quarantined tool it returns the old definition.
func (a *App) admit(ctx context.Context, source string, by trust, tools []toolroom.Tool) []toolroom.Tool {
	if by.pin == config.PinOff && !by.quarantine {
		a.quarantined.set(source, nil)
		return tools
	}
	taken, err := a.taken(ctx, source)
	if err != nil {
		a.log.Error("the tools of a source are quarantined: cannot read their pinned definitions", "source", source, "error", err)
	}
	held := map[toolroom.ID]string{}
	admitted := make([]toolroom.Tool, 0, len(tools))
	var fresh, widened []pin.Pin
	for _, tool := range tools {
		id := tool.ID.Unversioned()
		now, pinErr := pin.Of(source, &tool, time.Now().UTC())
		before, known := taken[now.Tool]
		switch {
		case err != nil || pinErr != nil:
			held[id] = "its definition cannot be compared with the accepted one"
		case !known && by.quarantine:
			held[id] = "it is new, and new tools of " + source + " are quarantined"
		case !known:
			fresh = append(fresh, now)
		case before.Hash == now.Hash || by.pin == config.PinOff || isOurs(&tool):
		case !by.quarantine && tool.ID.Name == library.GetTool && samePrompts(before.Raw, now.Raw):
			// Prompts were added or removed, and the accepted ones are unchanged.
			if all, err := withPrompts(before, tool); err == nil && all.Hash != before.Hash {
				widened = append(widened, all)
			}
		case by.pin == config.PinWarn:
			a.log.Warn("the definition of a tool differs from the accepted one", "tool", now.Tool, "fix", "toolroom sources review "+source)
		default:
			held[id] = fmt.Sprintf("its definition differs from the one accepted on %s", before.Pinned.Format(time.DateOnly))
			if tool, pinErr = before.Restore(); pinErr != nil {
				continue
			}
		}
		admitted = append(admitted, tool)
	}
	// Quarantine first and then show, so that the new definitions are never visible.
	if news := a.quarantined.set(source, held); news && len(held) > 0 {
		a.log.Warn("tools are quarantined until a person has reviewed them", "source", source, "tools", len(held), "fix", "toolroom sources review "+source)
	}
	if err := a.store.AddPins(ctx, fresh); len(fresh) > 0 && err != nil {
		a.log.Warn("cannot store pins of tool definitions", "source", source, "error", err)
	}
	if err := a.store.WidenPins(ctx, widened); len(widened) > 0 && err != nil {
		a.log.Warn("cannot store pins of new prompts", "source", source, "error", err)
	}
	return admitted
}

// isOurs reports whether a tool is the one that reads a source's resources. Its definition
// is this program's, not the source's. The definitions of a server are in Raw.
func isOurs(t *toolroom.Tool) bool { return len(t.Raw) == 0 && t.ID.Name == library.ReadTool }

// gate returns admit for one source.
func (a *App) gate(source string, by trust) func(context.Context, []toolroom.Tool) []toolroom.Tool {
	return func(ctx context.Context, tools []toolroom.Tool) []toolroom.Tool {
		return a.admit(ctx, source, by, tools)
	}
}

// pins returns the pins of a source, with hashes as this version makes them.
func (a *App) pins(ctx context.Context, source string) ([]pin.Pin, error) {
	pins, err := a.store.Pins(ctx, source)
	if err != nil {
		return nil, err
	}
	for i, p := range pins {
		if pins[i], err = p.Rehash(); err != nil {
			return nil, fmt.Errorf("the pin of %s: %w", p.Tool, err)
		}
	}
	return pins, nil
}

func (a *App) taken(ctx context.Context, source string) (map[string]pin.Pin, error) {
	pins, err := a.pins(ctx, source)
	if err != nil {
		return nil, err
	}
	taken := make(map[string]pin.Pin, len(pins))
	for _, p := range pins {
		taken[p.Tool] = p
	}
	return taken, nil
}

// Review shows a person what to decide on: the source's current tools compared with the
// pinned ones, and text in the definitions that people do not see.
type Review struct {
	Source string `json:"source"`
	// Digest identifies the reviewed definitions.
	Digest      string           `json:"digest"`
	Tools       []pin.Difference `json:"tools"`
	Quarantined int              `json:"held"`
	Findings    []poison.Finding `json:"findings,omitempty"`

	offer []pin.Pin
}

// ReviewSource lists a source and compares its tools with the pins. The error is not_found
// if the source is not configured, or the source's error if it cannot be listed.
func (a *App) ReviewSource(ctx context.Context, name string) (*Review, error) {
	h := a.manager(name)
	if h == nil {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "source %q not found", name).WithCLIHint("list the sources: toolroom sources list")
	}
	if err := h.list(ctx); err != nil {
		return nil, err
	}
	offer := h.listedTools()
	review := &Review{Source: name, Quarantined: a.quarantined.count(name), Findings: a.look(name, offer)}
	for i := range offer {
		p, err := pin.Of(name, &offer[i], time.Now().UTC())
		if err != nil {
			return nil, err
		}
		review.offer = append(review.offer, p)
	}
	taken, err := a.pins(ctx, name)
	if err != nil {
		return nil, err
	}
	if review.Tools = pin.Compare(taken, review.offer); review.Tools == nil {
		review.Tools = []pin.Difference{}
	}
	review.Digest = pin.Digest(review.offer)
	return review, nil
}

// Open reports whether there is something to accept.
func (r *Review) Open() bool {
	return slices.ContainsFunc(r.Tools, func(d pin.Difference) bool { return d.State != pin.Same })
}

// look looks for hidden text in the tools of one source, and for names of other sources.
func (a *App) look(name string, offer []toolroom.Tool) []poison.Finding {
	var others []toolroom.Tool
	for _, h := range a.allManagers() {
		if h.name != name {
			others = append(others, h.listedTools()...)
		}
	}
	return poison.Look(offer, poison.Options{Others: others, Instructions: a.manager(name).Describe().Text})
}

// AcceptReview accepts the definitions that the review showed, and nothing that the source
// may have changed since.
func (a *App) AcceptReview(ctx context.Context, review *Review) error {
	if err := a.store.ReplacePins(ctx, review.Source, review.offer); err != nil {
		return err
	}
	if h := a.manager(review.Source); h != nil {
		h.readmit()
	}
	return nil
}

// readmitPeriod is how often a server checks whether another process has accepted
// quarantined tools.
const readmitPeriod = 2 * time.Second

func (a *App) readmit(context.Context) {
	for _, h := range a.allManagers() {
		if a.quarantined.count(h.name) > 0 {
			h.readmit()
		}
	}
}
