// Package media provides the built-in tools for images and sounds. They send, describe and
// transcribe them, and take pictures of the screen or with a camera.
package media

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/builtin/message"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/source"
)

// Options configure the pack.
type Options struct {
	// Vision describes images, and Speech transcribes sounds; nil means that the config
	// names none.
	Vision, Speech *Provider
	Channels       message.Channels
	// Folders are those of the file tools; nil means none.
	Folders *folder.Folders
	// Artifact opens an artifact of a caller, and Put stores one.
	Artifact func(ctx context.Context, who toolroom.Identity, handle string) (*os.File, toolroom.Artifact, error)
	Put      func(ctx context.Context, owner string, kind artifact.Kind, name, mime string, r io.Reader) (toolroom.Artifact, error)
	// MaxBytes is the maximum size of one image or sound (20 MiB).
	MaxBytes int64
	// Environ is the environment of the programs that take pictures.
	Environ []string
	// Devices is the folder of cameras (/dev).
	Devices string
}

// Pack returns the tools.
func Pack(o Options) *builtin.Pack {
	o.MaxBytes = cmp.Or(o.MaxBytes, 20<<20)
	o.Devices = cmp.Or(o.Devices, "/dev")
	m := &media{o}
	p := &builtin.Pack{Name: "media", Tools: []builtin.Tool{m.send(), m.analyze(), m.transcribe(), m.screen(), m.camera()}, Check: m.check}
	if o.Folders != nil {
		p.Dir = o.Folders.Dir()
	}
	switch {
	case o.Vision == nil:
		p.PartlyMissing = noProvider("vision", "image:analyze")
	case o.Speech == nil:
		p.PartlyMissing = noProvider("speech", "audio:transcribe")
	}
	return p
}

type media struct{ Options }

// check returns an error if a provider has no key.
func (m *media) check(ctx context.Context) *toolroom.Error {
	for _, p := range []*Provider{m.Vision, m.Speech} {
		if p == nil {
			continue
		}
		if _, err := p.key(ctx); err != nil {
			return toolroom.AsError(err)
		}
	}
	return nil
}

// Input holds the arguments that name the image or sound of a call: its data, an artifact or a
// file.
type Input struct {
	Data     string `json:"data,omitempty" jsonschema:"the bytes in base64"`
	Handle   string `json:"handle,omitempty" jsonschema:"artifact with the bytes, in place of data"`
	Path     string `json:"path,omitempty" jsonschema:"file with the bytes, in place of data"`
	MIMEType string `json:"mimeType,omitempty" jsonschema:"type of the data; what the bytes say takes precedence"`
}

// blob is the image or sound of a call.
type blob struct {
	name, kind string
	data       []byte
}

// load returns the image or sound that a call names. Its type is determined from the content,
// not from the caller's claim, and must be one of kinds if there are any.
func (m *media) load(ctx context.Context, req *source.Request, in Input, kinds ...string) (*blob, error) {
	if n := len(slices.DeleteFunc([]string{in.Data, in.Handle, in.Path}, func(s string) bool { return s == "" })); n != 1 {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "exactly one of data, handle and path is needed, not %d", n)
	}
	b := &blob{}
	var from io.Reader
	switch {
	case in.Data != "":
		from = base64.NewDecoder(base64.StdEncoding, strings.NewReader(in.Data))
	case in.Handle != "":
		f, a, err := m.Artifact(ctx, req.Identity, in.Handle)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from, b.name = f, a.Name
	case m.Folders == nil:
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "no folder is configured, so that no file can be read").WithHint("name the folders in toolroom.yaml: builtin: {file: {roots: [/srv/project]}}")
	default:
		f, err := m.Folders.Open(in.Path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from, b.name = f, filepath.Base(in.Path)
	}
	var err error
	if b.data, err = io.ReadAll(io.LimitReader(from, m.MaxBytes+1)); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the bytes cannot be read: %w", err).WithHint("data must be base64")
	}
	switch {
	case len(b.data) == 0:
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "there are no bytes")
	case int64(len(b.data)) > m.MaxBytes:
		return nil, toolroom.Errorf(toolroom.CodeResourceLimit, "there are more than %d bytes, the maximum", m.MaxBytes).WithHint("make it smaller, or raise builtin.media.max_bytes in toolroom.yaml")
	}
	b.kind = kindOf(b.data, in.MIMEType, b.name)
	if len(kinds) > 0 && !slices.Contains(kinds, b.kind) {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the bytes are %s, not one of %s", b.kind, strings.Join(kinds, ", "))
	}
	return b, nil
}

// kindOf returns the media type of data: the detected one, or else the claimed one.
func kindOf(data []byte, said, name string) string {
	kind, _, _ := mime.ParseMediaType(http.DetectContentType(data)) // it is always valid
	switch {
	case bytes.HasPrefix(data, []byte("OggS")):
		return "audio/ogg"
	case kind == "audio/wave":
		return "audio/wav"
	case kind == "video/webm":
		if strings.HasPrefix(said, "audio/") {
			return "audio/webm"
		}
	case len(data) > 2 && data[0] == 0xff && data[1]&0xe0 == 0xe0 && kind == "application/octet-stream":
		return "audio/mpeg" // without tags
	case kind == "application/octet-stream" || kind == "text/plain":
		byName, _, _ := mime.ParseMediaType(mime.TypeByExtension(filepath.Ext(name)))
		given, _, err := mime.ParseMediaType(said)
		if err != nil {
			given = ""
		}
		said = cmp.Or(given, byName, kind)
		if isMedia(said) {
			return kind // an image or sound would have been seen
		}
		return said
	}
	return kind
}

func isMedia(kind string) bool {
	return strings.HasPrefix(kind, "image/") && kind != "image/svg+xml" || strings.HasPrefix(kind, "audio/")
}

// extensionOf returns the file extension for a media type.
func extensionOf(kind string) string {
	common := map[string]string{
		"image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp",
		"audio/ogg": ".ogg", "audio/wav": ".wav", "audio/mpeg": ".mp3", "audio/webm": ".webm", "text/plain": ".txt", "application/pdf": ".pdf",
	}
	return cmp.Or(common[kind], ".bin")
}

// inputProperties returns the schemas of the arguments in [Input].
func inputProperties(kinds []string) map[string]builtin.Property {
	p := map[string]builtin.Property{"handle": {"maxLength": 200}, "mimeType": {"maxLength": 200}}
	if kinds != nil {
		p["mimeType"] = builtin.Property{"enum": kinds}
	}
	return p
}

// reads returns the predicted effect of reading the file of a call.
func (in Input) reads() []toolroom.Effect {
	if in.Path == "" {
		return nil
	}
	return []toolroom.Effect{{Kind: toolroom.EffectFile, Mode: "read", Target: in.Path}}
}

func definition(id, title, description string, hints toolroom.Hints, example map[string]any) toolroom.Tool {
	return toolroom.Tool{
		ID: toolroom.MustParseID(id), Title: title, Description: description, Hints: hints, Tags: []string{"media"},
		Guarantee: toolroom.GuaranteeNever, Sensitive: []string{"/data"}, Timeout: 5 * time.Minute, DefaultTimeout: 2 * time.Minute,
		Examples: []toolroom.Example{{Arguments: builtin.Arguments(example)}},
	}
}

// SendArgs are the arguments of media:send.
type SendArgs struct {
	Input
	Filename       string `json:"filename,omitempty" jsonschema:"name of the file"`
	Caption        string `json:"caption,omitempty" jsonschema:"text that is sent with it"`
	Channel        string `json:"channel,omitempty" jsonschema:"configured channel of message:send to send it by; without one the client that made the call shows it"`
	Recipient      string `json:"recipient,omitempty" jsonschema:"who gets it: a recipient that the channel permits; the default is the channel's first"`
	RemoveMetadata bool   `json:"remove_metadata,omitempty" jsonschema:"remove EXIF data (place, time, camera) and texts from an image"`
}

// Sent is the value of media:send.
type Sent struct {
	Handle   string `json:"handle" jsonschema:"the artifact that holds it"`
	Filename string `json:"filename" jsonschema:"its name"`
	MIMEType string `json:"mime_type" jsonschema:"its type, as the bytes say"`
	Bytes    int    `json:"bytes" jsonschema:"its size"`
	Channel  string `json:"channel,omitempty" jsonschema:"the channel that it was sent by"`
	To       string `json:"to,omitempty" jsonschema:"who got it"`
	ID       string `json:"id,omitempty" jsonschema:"id of the message at the provider"`
}

func (m *media) send() builtin.Tool {
	properties := inputProperties(nil)
	for name, most := range map[string]int{"filename": 200, "caption": 1024, "channel": 100, "recipient": 320} {
		properties[name] = builtin.Property{"maxLength": most}
	}
	return builtin.MustTool(builtin.Spec[SendArgs, Sent]{
		Tool: definition("media:send", "Send a picture, sound or file",
			"Send a media attachment to the user: an image, photo, audio or other file, shown in the chat, or sent by Telegram, Slack, Matrix, mail or a webhook.",
			builtin.Hints(false, false, true), map[string]any{"path": "chart.png", "caption": "Sales of this week"}),
		Arguments: properties,
		Predict: func(_ *source.Request, in SendArgs) []toolroom.Effect {
			effects := in.reads()
			if in.Channel != "" {
				more, _, _ := m.Channels.Target(in.Channel, in.Recipient)
				effects = append(effects, append(more, toolroom.Effect{Kind: toolroom.EffectSend})...)
			}
			return effects
		},
		Preview: func(_ context.Context, _ *source.Request, in SendArgs) (source.Preview, error) {
			if in.Channel == "" {
				return source.Preview{}, nil
			}
			_, to, err := m.Channels.Target(in.Channel, in.Recipient)
			return source.Preview{Effects: []string{fmt.Sprintf("sends %s by %s to %s", cmp.Or(in.Filename, in.Path, in.Handle, "a file"), in.Channel, to)}}, err
		},
		Run: m.runSend,
	})
}

func (m *media) runSend(ctx context.Context, req *source.Request, in SendArgs) (Sent, []toolroom.Content, error) {
	b, err := m.load(ctx, req, in.Input)
	if err != nil {
		return Sent{}, nil, err
	}
	if in.RemoveMetadata {
		if b.data, err = withoutMetadata(b.data, b.kind); err != nil {
			return Sent{}, nil, err
		}
	}
	name := filepath.Base(filepath.ToSlash(cmp.Or(in.Filename, b.name, "file"+extensionOf(b.kind))))
	out := Sent{Filename: name, MIMEType: b.kind, Bytes: len(b.data), Handle: in.Handle}
	if out.Handle == "" || in.RemoveMetadata {
		// Before the file goes out: a call that fails has sent nothing.
		if out.Handle, err = m.keep(ctx, req, name, b); err != nil {
			return Sent{}, nil, err
		}
	}
	if in.Channel != "" {
		sent, err := m.Channels.SendFile(ctx, req, in.Channel, in.Recipient, in.Caption, message.Attachment{Name: name, Kind: b.kind, Data: b.data})
		if err != nil {
			return Sent{}, nil, err
		}
		out.Channel, out.To, out.ID = sent.Channel, sent.Recipient, sent.ID
		text := fmt.Sprintf("Sent %s (%s, %d bytes) by %s", name, b.kind, len(b.data), out.Channel)
		if out.To != "" {
			text += " to " + out.To
		}
		return out, builtin.Text(text + "."), nil
	}
	return out, append(builtin.Text(cmp.Or(in.Caption, name)), b.content(name)), nil
}

// keep stores a blob as an artifact and returns its handle.
func (m *media) keep(ctx context.Context, req *source.Request, name string, b *blob) (string, error) {
	a, err := m.Put(ctx, identity.Owner(req.Identity), artifact.File, name, b.kind, bytes.NewReader(b.data))
	return a.Handle, err
}

// content returns a blob as the content of a result.
func (b *blob) content(name string) toolroom.Content {
	switch major, _, _ := strings.Cut(b.kind, "/"); major {
	case "image":
		return toolroom.Content{Type: toolroom.ContentImage, Data: b.data, MIMEType: b.kind}
	case "audio":
		return toolroom.Content{Type: toolroom.ContentAudio, Data: b.data, MIMEType: b.kind}
	default:
		return toolroom.Content{Type: toolroom.ContentResource, Data: b.data, MIMEType: b.kind, URI: "file:///" + name}
	}
}
