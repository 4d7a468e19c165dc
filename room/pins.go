package room

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

// trust is how far a source is trusted.
type trust struct {
	pin        string
	quarantine bool
}

// heldBack are the tools that wait for a person, with the reason, by source.
type heldBack struct {
	mu      sync.RWMutex
	reasons map[string]map[toolroom.ID]string
}

// set reports whether that is news.
func (h *heldBack) set(source string, reasons map[toolroom.ID]string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	news := !maps.Equal(h.reasons[source], reasons)
	if h.reasons == nil {
		h.reasons = map[string]map[toolroom.ID]string{}
	}
	h.reasons[source] = reasons
	return news
}

func (h *heldBack) count(source string) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.reasons[source])
}

// narrow denies tools that are held back: neither their old nor their new
// definition reaches a model.
func (h *heldBack) narrow(d policy.Decision, r policy.Request) policy.Decision {
	if d.Effect == policy.Deny {
		return d
	}
	h.mu.RLock()
	reason := h.reasons[r.Tool.ID.Namespace][r.Tool.ID.Unversioned()]
	h.mu.RUnlock()
	if reason == "" {
		return d
	}
	return d.Then(policy.Step{
		Layer: "policy.pin", Effect: policy.Deny, Rule: reason,
		Hint: "a person looks and takes it: toolroom sources review " + r.Tool.ID.Namespace,
	})
}

// admit compares what a source offers with what was taken of it, and gives what
// the catalog may hold: of a changed tool that is held back, the old definition.
func (r *Room) admit(ctx context.Context, source string, by trust, tools []toolroom.Tool) []toolroom.Tool {
	if by.pin == config.PinOff && !by.quarantine {
		r.held.set(source, nil)
		return tools
	}
	taken, err := r.taken(ctx, source)
	if err != nil {
		r.log.Error("the tools of a source are held back: what was taken of it cannot be read", "source", source, "error", err)
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
			held[id] = "its definition cannot be compared with the one that was taken"
		case !known && by.quarantine:
			held[id] = "it is new, and new tools of " + source + " are in quarantine"
		case !known:
			fresh = append(fresh, now)
		case before.Hash == now.Hash || by.pin == config.PinOff || isOurs(&tool):
		case !by.quarantine && tool.ID.Name == library.GetTool && samePrompts(before.Raw, now.Raw):
			// Prompts came or went, and those that were taken say the same.
			if all, err := withPrompts(before, tool); err == nil && all.Hash != before.Hash {
				widened = append(widened, all)
			}
		case by.pin == config.PinWarn:
			r.log.Warn("the definition of a tool is not the one that was taken", "tool", now.Tool, "look", "toolroom sources review "+source)
		default:
			held[id] = fmt.Sprintf("its definition is not the one that was taken on %s", before.Pinned.Format(time.DateOnly))
			if tool, pinErr = before.Restore(); pinErr != nil {
				continue
			}
		}
		admitted = append(admitted, tool)
	}
	// Held first, then shown: no moment lies between.
	if news := r.held.set(source, held); news && len(held) > 0 {
		r.log.Warn("tools are held back until a person has looked", "source", source, "tools", len(held), "look", "toolroom sources review "+source)
	}
	if err := r.store.AddPins(ctx, fresh); len(fresh) > 0 && err != nil {
		r.log.Warn("the definitions of tools were not kept to compare later", "source", source, "error", err)
	}
	if err := r.store.WidenPins(ctx, widened); len(widened) > 0 && err != nil {
		r.log.Warn("new prompts were not kept to compare later", "source", source, "error", err)
	}
	return admitted
}

// isOurs reports whether a tool is the one through which a source's resources are
// read: what it says is this program's, not the source's. What a server defines
// has its own text in Raw.
func isOurs(t *toolroom.Tool) bool { return len(t.Raw) == 0 && t.ID.Name == library.ReadTool }

// gate is admit for one source.
func (r *Room) gate(source string, by trust) func(context.Context, []toolroom.Tool) []toolroom.Tool {
	return func(ctx context.Context, tools []toolroom.Tool) []toolroom.Tool {
		return r.admit(ctx, source, by, tools)
	}
}

func (r *Room) taken(ctx context.Context, source string) (map[string]pin.Pin, error) {
	pins, err := r.store.Pins(ctx, source)
	if err != nil {
		return nil, err
	}
	taken := make(map[string]pin.Pin, len(pins))
	for _, p := range pins {
		taken[p.Tool] = p
	}
	return taken, nil
}

// Review is what a person decides on: what a source offers now, compared with
// what was taken, and what looks like an attack on models.
type Review struct {
	Source string `json:"source"`
	// Digest names the offer.
	Digest   string           `json:"digest"`
	Tools    []pin.Difference `json:"tools"`
	Held     int              `json:"held"`
	Findings []poison.Finding `json:"findings,omitempty"`

	offer []pin.Pin
}

// ReviewSource lists a source and compares. The error is not_found for a name
// that is not configured, and that of the source when it cannot be listed.
func (r *Room) ReviewSource(ctx context.Context, name string) (*Review, error) {
	h := r.host(name)
	if h == nil {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "there is no source %q", name).WithHint("see what there is: toolroom sources list")
	}
	if err := h.list(ctx); err != nil {
		return nil, err
	}
	offer := h.listedTools()
	review := &Review{Source: name, Held: r.held.count(name), Findings: r.lint(name, offer)}
	for i := range offer {
		p, err := pin.Of(name, &offer[i], time.Now().UTC())
		if err != nil {
			return nil, err
		}
		review.offer = append(review.offer, p)
	}
	taken, err := r.store.Pins(ctx, name)
	if err != nil {
		return nil, err
	}
	if review.Tools = pin.Compare(taken, review.offer); review.Tools == nil {
		review.Tools = []pin.Difference{}
	}
	review.Digest = pin.Digest(review.offer)
	return review, nil
}

// Open reports whether there is something to take.
func (r *Review) Open() bool {
	return slices.ContainsFunc(r.Tools, func(d pin.Difference) bool { return d.State != pin.Same })
}

// Visible writes what nobody would see in a text as escapes.
func (r *Review) Visible(text string) string { return poison.Visible(text) }

// lint looks for attacks in the tools of one source, among those of all others.
func (r *Room) lint(name string, offer []toolroom.Tool) []poison.Finding {
	var others []toolroom.ID
	for _, h := range r.allHosts() {
		if h.name != name {
			for _, tool := range h.listedTools() {
				others = append(others, tool.ID)
			}
		}
	}
	return poison.Lint(offer, poison.Options{Others: others, Instructions: r.host(name).Describe().Text})
}

// AcceptReview takes what the review showed, and nothing that the source may
// have changed since.
func (r *Room) AcceptReview(ctx context.Context, review *Review) error {
	if err := r.store.ReplacePins(ctx, review.Source, review.offer); err != nil {
		return err
	}
	if h := r.host(review.Source); h != nil {
		h.readmit()
	}
	return nil
}

// readmitPeriod is how often a server looks whether another process has taken
// what is held back.
const readmitPeriod = 2 * time.Second

func (r *Room) readmit(context.Context) {
	for _, h := range r.allHosts() {
		if r.held.count(h.name) > 0 {
			h.readmit()
		}
	}
}
