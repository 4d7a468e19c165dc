package browser

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/cdproto/target"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/atomicfile"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/source"
)

// maxCheckpoint bounds a file of a checkpoint.
const maxCheckpoint = 32 << 20

// checkpoint is what browser:checkpoint.save keeps, in a file that its identity owns.
type checkpoint struct {
	Saved   time.Time           `json:"saved"`
	URL     string              `json:"url"`
	Cookies []*network.Cookie   `json:"cookies"`
	Storage map[string]webStore `json:"storage"` // by origin
}

// webStore is the storage of one origin.
type webStore struct {
	Origin  string            `json:"origin,omitempty"`
	Local   map[string]string `json:"local"`
	Session map[string]string `json:"session"`
}

const readStorage = `function() {
	try { return {origin: location.origin, local: {...localStorage}, session: {...sessionStorage}} } catch { return {origin: ''} }
}`

// CheckpointArgs are the arguments of browser:checkpoint.save and browser:checkpoint.resume.
type CheckpointArgs struct {
	Name string `json:"name" jsonschema:"name of the checkpoint"`
}

// CheckpointResult is the value of browser:checkpoint.save.
type CheckpointResult struct {
	Name    string `json:"name" jsonschema:"name of the checkpoint"`
	URL     string `json:"url" jsonschema:"address of the page"`
	Cookies int    `json:"cookies" jsonschema:"number of cookies that were saved"`
	Origins int    `json:"origins" jsonschema:"number of origins whose storage was saved"`
}

var checkpointName = builtin.Property{"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}

func (b *browsers) checkpointFile(req *source.Request, name string) string {
	owner := sha256.Sum256([]byte(identity.Owner(req.Identity)))
	return filepath.Join(b.o.State, hex.EncodeToString(owner[:8]), name+".json")
}

func (b *browsers) saveTool() builtin.Tool {
	return builtin.MustTool(builtin.Spec[CheckpointArgs, CheckpointResult]{
		Tool: tool("checkpoint.save", "Save the state of the browser",
			"Save a checkpoint of the browser under a name: its cookies (and so its logins), the storage of the open pages, and the address of the page. browser:checkpoint.resume goes on there, also in another session.",
			builtin.Hints(false, true, false), example(map[string]any{"name": "shop"})),
		Arguments: map[string]builtin.Property{"name": checkpointName},
		Run: func(ctx context.Context, req *source.Request, in CheckpointArgs) (CheckpointResult, []toolroom.Content, error) {
			out := CheckpointResult{Name: in.Name}
			c := checkpoint{Saved: time.Now(), Storage: map[string]webStore{}}
			err := b.withTab(ctx, req, false, func(w *browser, t *tab) error {
				if err := w.waitAfterAction(ctx, t); err != nil {
					return err
				}
				c.URL = w.address(t)
				got, err := cdp.Call(ctx, w.root(), storage.GetCookies, storage.GetCookiesParams{})
				if err != nil {
					return w.commandError(ctx, err)
				}
				c.Cookies = got.Cookies
				for _, f := range w.framesOf(t) {
					var s webStore
					if w.evaluate(ctx, f.frames, f.id, &s, readStorage) == nil && s.Origin != "" && s.Origin != "null" && len(s.Local)+len(s.Session) > 0 {
						c.Storage[s.Origin] = webStore{Local: s.Local, Session: s.Session}
					}
				}
				return ctx.Err()
			})
			if err != nil {
				return out, nil, err
			}
			out.URL, out.Cookies, out.Origins = c.URL, len(c.Cookies), len(c.Storage)
			return out, nil, b.writeCheckpoint(req, in.Name, c)
		},
	})
}

// checkpointCipher returns the cipher that seals checkpoints, because they hold logins.
func (b *browsers) checkpointCipher() (cipher.AEAD, error) {
	key, err := b.o.Key()
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// checkpointContext returns the additional data of a sealed checkpoint: it opens only for its
// owner and under its name.
func checkpointContext(req *source.Request, name string) []byte {
	return []byte(name + "\n" + identity.Owner(req.Identity))
}

func (b *browsers) writeCheckpoint(req *source.Request, name string, c checkpoint) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	box, err := b.checkpointCipher()
	if err != nil {
		return err
	}
	if len(data) > maxCheckpoint {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "the state of the browser has %d bytes; a checkpoint has at most %d", len(data), maxCheckpoint)
	}
	file := b.checkpointFile(req, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(file, box.Seal(nil, nil, data, checkpointContext(req, name)), 0o600)
}

func (b *browsers) resumeTool() builtin.Tool {
	return builtin.MustTool(builtin.Spec[CheckpointArgs, Outcome]{
		Tool: tool("checkpoint.resume", "Resume a saved state of the browser",
			"Resume or restore a checkpoint that browser:checkpoint.save has saved: the browser gets its cookies, logins and storage in place of its own, and opens its page."+caution,
			actingHints(), example(map[string]any{"name": "shop"})),
		Arguments: map[string]builtin.Property{"name": checkpointName},
		Predict: func(req *source.Request, in CheckpointArgs) []toolroom.Effect {
			return []toolroom.Effect{{Kind: toolroom.EffectHost, Mode: "get"}}
		},
		Run: func(ctx context.Context, req *source.Request, in CheckpointArgs) (Outcome, []toolroom.Content, error) {
			c, err := b.readCheckpoint(req, in.Name)
			if err != nil {
				return Outcome{}, nil, err
			}
			if err := b.checkAddress(ctx, req.Identity, c.URL); err != nil {
				return Outcome{}, nil, err
			}
			return b.runAction(ctx, req, Answer{}, true, func(w *browser, t *tab) error { return w.restore(ctx, t, c) })
		},
	})
}

func (b *browsers) readCheckpoint(req *source.Request, name string) (checkpoint, error) {
	var c checkpoint
	data, err := os.ReadFile(b.checkpointFile(req, name))
	if errors.Is(err, fs.ErrNotExist) {
		return c, toolroom.Errorf(toolroom.CodeNotFound, "there is no checkpoint %q", name).WithHint("save one with browser:checkpoint.save")
	}
	if err != nil {
		return c, err
	}
	box, err := b.checkpointCipher()
	if err != nil {
		return c, err
	}
	if data, err = box.Open(nil, nil, data, checkpointContext(req, name)); err != nil {
		return c, toolroom.Errorf(toolroom.CodeConflict, "the checkpoint %q cannot be opened: it was changed, or sealed with another key", name).WithHint("save it again with browser:checkpoint.save")
	}
	return c, json.Unmarshal(data, &c)
}

// restore puts the browser into the state of a checkpoint. It closes all tabs except a new one,
// which has no session storage yet.
func (w *browser) restore(ctx context.Context, old *tab, c checkpoint) error {
	t, err := w.openTab(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	var others []*tab
	for _, other := range w.tabs {
		if other != t {
			others = append(others, other)
		}
	}
	w.mu.Unlock()
	for _, other := range others {
		if _, err := cdp.Call(ctx, w.root(), target.CloseTarget, target.CloseTargetParams{TargetID: other.id}); err != nil {
			return w.commandError(ctx, err)
		}
	}
	if err := w.await(ctx, func() bool { return old.gone }); err != nil {
		return w.commandError(ctx, err)
	}
	if _, err := cdp.Call(ctx, w.root(), storage.ClearCookies, storage.ClearCookiesParams{}); err != nil {
		return w.commandError(ctx, err)
	}
	if _, err := cdp.Call(ctx, w.root(), storage.SetCookies, storage.SetCookiesParams{Cookies: cookieParams(c.Cookies)}); err != nil {
		return w.commandError(ctx, err)
	}
	data, err := json.Marshal(c.Storage)
	if err != nil {
		return err
	}
	// The first documents of the origins get their storage before their scripts run.
	script, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{WorldName: isolatedWorld, Source: `try {
		const saved = ` + string(data) + `[location.origin];
		if (saved) for (const [to, from] of [[localStorage, saved.local], [sessionStorage, saved.session]]) {
			to.clear();
			for (const key in from) to.setItem(key, from[key]);
		}
	} catch { }`})
	if err != nil {
		return w.commandError(ctx, err)
	}
	err = w.open(ctx, t, c.URL)
	if err == nil {
		err = w.waitAfterAction(ctx, t)
	}
	_, removed := cdp.Call(ctx, t, page.RemoveScriptToEvaluateOnNewDocument, page.RemoveScriptToEvaluateOnNewDocumentParams(script))
	return w.commandError(ctx, errors.Join(err, removed))
}

// cookieParams converts cookies to the parameters that set them.
func cookieParams(cookies []*network.Cookie) []*network.CookieParam {
	out := []*network.CookieParam{}
	for _, c := range cookies {
		p := &network.CookieParam{
			Name: c.Name, Value: c.Value, Domain: c.Domain, Path: c.Path, Secure: c.Secure, HTTPOnly: c.HTTPOnly,
			SameSite: c.SameSite, Priority: c.Priority, PartitionKey: c.PartitionKey,
		}
		if !c.Session {
			p.Expires = cdp.TimeSinceEpoch(c.Expires)
		}
		if !strings.HasPrefix(c.Domain, ".") { // with a domain, it would be sent to others below, too
			p.URL, p.Domain = "http://"+c.Domain+c.Path, ""
			if c.Secure {
				p.URL = "https://" + c.Domain + c.Path
			}
		}
		out = append(out, p)
	}
	return out
}

// TabsArgs are the arguments of browser:tabs.
type TabsArgs struct {
	Select int `json:"select,omitempty" jsonschema:"number of the tab that tools act on from now"`
	Close  int `json:"close,omitempty" jsonschema:"number of a tab to close"`
}

// TabsResult is the value of browser:tabs.
type TabsResult struct {
	Tabs []Tab `json:"tabs" jsonschema:"the open tabs"`
}

func (b *browsers) tabsTool() builtin.Tool {
	return builtin.MustTool(builtin.Spec[TabsArgs, TabsResult]{
		Tool: tool("tabs", "Tabs of the browser",
			"List which tabs and popup windows are open in the browser, switch to another tab, or close one."+caution,
			builtin.Hints(false, true, false), example(map[string]any{})),
		Arguments: map[string]builtin.Property{"select": {"minimum": 1}, "close": {"minimum": 1}},
		Run: func(ctx context.Context, req *source.Request, in TabsArgs) (TabsResult, []toolroom.Content, error) {
			out := TabsResult{Tabs: []Tab{}}
			err := b.withTab(ctx, req, false, func(w *browser, t *tab) error {
				if in.Close > 0 {
					closing, err := w.tabByNumber(in.Close)
					if err != nil {
						return err
					}
					if _, err := cdp.Call(ctx, w.root(), target.CloseTarget, target.CloseTargetParams{TargetID: closing.id}); err != nil {
						return w.commandError(ctx, err)
					}
					if err := w.await(ctx, func() bool { return closing.gone }); err != nil {
						return w.commandError(ctx, err)
					}
				}
				if in.Select > 0 {
					selected, err := w.tabByNumber(in.Select)
					if err != nil {
						return err
					}
					w.mu.Lock()
					w.selected = selected
					w.mu.Unlock()
					if _, err := cdp.Call(ctx, selected, page.BringToFront, cdp.Empty{}); err != nil {
						return w.commandError(ctx, err)
					}
				}
				now, err := w.tab()
				if err != nil && in.Close == 0 {
					return err
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, one := range w.tabs {
					out.Tabs = append(out.Tabs, Tab{Number: one.number, URL: truncate(one.main().url, 300), Selected: one == now})
				}
				return nil
			})
			return out, nil, err
		},
	})
}

// tabByNumber returns the tab with a number.
func (w *browser) tabByNumber(n int) (*tab, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.tabs {
		if t.number == n {
			return t, nil
		}
	}
	return nil, toolroom.Errorf(toolroom.CodeNotFound, "there is no tab %d", n).WithHint("browser:tabs lists them")
}
