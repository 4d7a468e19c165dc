package browser

import (
	"context"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"

	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/source"
)

// Download is a file that a page sent.
type Download struct {
	Name   string `json:"name" jsonschema:"its name"`
	URL    string `json:"url" jsonschema:"where it is from"`
	Bytes  int64  `json:"bytes" jsonschema:"its size so far"`
	State  string `json:"state" jsonschema:"completed, canceled or inProgress"`
	Handle string `json:"handle,omitempty" jsonschema:"the artifact that holds the file"`
	Error  string `json:"error,omitempty" jsonschema:"why it was not kept"`
}

type download struct {
	guid, name, url, path string
	received              int64
	state                 cdpbrowser.DownloadProgressState
	tooLarge              bool
}

func (p *process) downloadFolder() string { return filepath.Join(p.dir, "downloads") }

func (p *process) downloadPath(guid string) string {
	return filepath.Join(p.downloadFolder(), filepath.Base(guid))
}

// noteProgress records the progress of a download, and ends one that is too large. The caller
// holds mu.
func (w *browser) noteProgress(e cdpbrowser.EventDownloadProgress) {
	d := w.downloads[e.GUID]
	if d == nil {
		return
	}
	d.received, d.state = int64(e.ReceivedBytes), e.State
	if d.tooLarge || max(d.received, int64(e.TotalBytes)) <= w.owner.o.MaxDownload {
		return
	}
	d.tooLarge = true
	go func() {
		_, _ = cdp.Call(context.Background(), w.root(), cdpbrowser.CancelDownload, cdpbrowser.CancelDownloadParams{GUID: d.guid})
	}()
}

func (d *download) ended() bool {
	return d.state == cdpbrowser.DownloadProgressStateCompleted || d.state == cdpbrowser.DownloadProgressStateCanceled
}

// isDownloading reports whether a download is in progress. The caller holds mu.
func (w *browser) isDownloading() bool {
	for _, d := range w.downloads {
		if !d.ended() {
			return true
		}
	}
	return false
}

// keepDownloads stores the downloads that have ended as artifacts, and describes all downloads.
func (w *browser) keepDownloads(ctx context.Context, req *source.Request) []Download {
	w.mu.Lock()
	var all []*download
	for guid, d := range w.downloads {
		all = append(all, d)
		if d.ended() {
			delete(w.downloads, guid)
		}
	}
	var out []Download
	for _, d := range all {
		out = append(out, Download{Name: truncate(d.name, 200), URL: truncate(d.url, 500), Bytes: d.received, State: string(d.state)})
	}
	w.mu.Unlock()
	for i, d := range all {
		switch {
		case d.tooLarge:
			out[i].Error = "it is larger than builtin.browser.max_download"
		case out[i].State == string(cdpbrowser.DownloadProgressStateCompleted):
			out[i].Handle, out[i].Error = w.keepDownload(ctx, req, d)
		}
		if out[i].State == "" {
			out[i].State = string(cdpbrowser.DownloadProgressStateInProgress)
		}
	}
	slices.SortFunc(out, func(a, b Download) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// keepDownload stores a downloaded file as an artifact and removes the file. failure says why
// it could not be stored.
func (w *browser) keepDownload(ctx context.Context, req *source.Request, d *download) (handle, failure string) {
	defer os.Remove(d.path)
	if w.owner.o.Artifacts == nil {
		return "", "there is no store of artifacts"
	}
	f, err := os.Open(d.path)
	if err != nil {
		return "", "the file cannot be read"
	}
	defer f.Close()
	kind := mime.TypeByExtension(filepath.Ext(d.name))
	if kind == "" {
		head := make([]byte, 512)
		n, _ := f.ReadAt(head, 0) // a short file
		kind = http.DetectContentType(head[:n])
	}
	a, err := w.owner.o.Artifacts.Put(ctx, identity.Owner(req.Identity), artifact.File, d.name, kind, f)
	if err != nil {
		return "", err.Error()
	}
	return a.Handle, ""
}
