package media

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/builtin/message"
	"github.com/toolroom/toolroom/source"
)

func picture() image.Image {
	img := image.NewPaletted(image.Rect(0, 0, 8, 8), color.Palette{color.Black, color.White, color.RGBA{200, 30, 40, 255}})
	for i := range img.Pix {
		img.Pix[i] = uint8(i % 3)
	}
	return img
}

const hidden = "48.3984 N 9.9916 E"

func encoded(t *testing.T, encode func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Pictures with a place in their metadata.
func jpegWithEXIF(t *testing.T) []byte {
	plain := encoded(t, func(w io.Writer) error { return jpeg.Encode(w, picture(), nil) })
	segment := func(marker byte, text string) []byte {
		n := len(text) + 2
		return append([]byte{0xff, marker, byte(n >> 8), byte(n)}, text...)
	}
	out := append(bytes.Clone(plain[:2]), segment(0xe1, "Exif\x00\x00"+hidden)...)
	out = append(out, segment(0xfe, "comment "+hidden)...)
	out = append(out, plain[2:]...)
	return append(out, []byte("\xff\xd8 a preview "+hidden+"\xff\xd9")...)
}

func pngWithText(t *testing.T) []byte {
	plain := encoded(t, func(w io.Writer) error { return png.Encode(w, picture()) })
	text := "tEXtplace\x00" + hidden
	chunk := append([]byte{0, 0, 0, byte(len(text) - 4)}, text...)
	sum := crc32.ChecksumIEEE([]byte(text))
	chunk = append(chunk, byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
	return append(append(bytes.Clone(plain[:33]), chunk...), plain[33:]...)
}

func gifWithComment(t *testing.T) []byte {
	plain := encoded(t, func(w io.Writer) error { return gif.Encode(w, picture(), nil) })
	comment := append([]byte{0x21, 0xfe, byte(len(hidden))}, hidden...)
	at := 13 + colourTableSize(plain[10])
	return append(append(bytes.Clone(plain[:at]), append(comment, 0)...), plain[at:]...)
}

// webp is the smallest lossy image, in the extended form, with EXIF data.
func webpWithEXIF() []byte {
	chunk := func(name string, data []byte) []byte {
		out := append([]byte(name), byte(len(data)), byte(len(data)>>8), 0, 0)
		out = append(out, data...)
		if len(data)%2 == 1 {
			out = append(out, 0)
		}
		return out
	}
	body := append([]byte("WEBP"), chunk("VP8X", []byte{0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0})...)
	body = append(body, chunk("VP8 ", []byte{0x30, 1, 0, 0x9d, 1, 0x2a, 1, 0, 1, 0, 2, 0, 0x34, 0x25})...)
	body = append(body, chunk("EXIF", []byte(hidden))...)
	return append([]byte{'R', 'I', 'F', 'F', byte(len(body)), byte(len(body) >> 8), 0, 0}, body...)
}

func TestMetadataIsRemovedAndPixelsStay(t *testing.T) {
	t.Parallel()
	for kind, data := range map[string][]byte{"image/jpeg": jpegWithEXIF(t), "image/png": pngWithText(t), "image/gif": gifWithComment(t), "image/webp": webpWithEXIF()} {
		clean, err := withoutMetadata(data, kind)
		if err != nil || !bytes.Contains(data, []byte(hidden)) || bytes.Contains(clean, []byte(hidden)) {
			t.Errorf("%s: %v, the place stays: %v", kind, err, bytes.Contains(clean, []byte(hidden)))
		}
		if kind == "image/webp" {
			if clean[20]&0x0c != 0 || len(clean) != 8+int(clean[4]) {
				t.Errorf("the WebP image says that it has metadata, or another size: %x", clean)
			}
			continue
		}
		before, _, err := image.Decode(bytes.NewReader(data))
		after, _, err2 := image.Decode(bytes.NewReader(clean))
		if err != nil || err2 != nil {
			t.Errorf("%s: %v %v", kind, err, err2)
			continue
		}
		for x := range 8 {
			for y := range 8 {
				if before.At(x, y) != after.At(x, y) {
					t.Fatalf("%s: another pixel at %d,%d", kind, x, y)
				}
			}
		}
		for n := range len(data) {
			_, _ = withoutMetadata(data[:n], kind) // must not panic
		}
	}
}

func FuzzMetadata(f *testing.F) {
	f.Add([]byte("\xff\xd8\xff\xe1\x00\x04ab\xff\xda\x00\x02\xff\xd9"), 0)
	f.Add(webpWithEXIF(), 2)
	f.Fuzz(func(_ *testing.T, data []byte, kind int) {
		_, _ = withoutMetadata(data, imageTypes[uint(kind)%uint(len(imageTypes))])
	})
}

// provider answers like the APIs of OpenAI and Anthropic, if a request is as they document it.
func provider(t *testing.T) *httptest.Server {
	t.Helper()
	type object = map[string]any
	refuse := func(w http.ResponseWriter, status int, why string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(object{"error": object{"message": why}})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model    string
			Messages []struct {
				Role    string
				Content []struct {
					Type, Text string
					ImageURL   struct{ URL string } `json:"image_url"`
				}
			}
		}
		if json.NewDecoder(r.Body).Decode(&body) != nil || r.Header.Get("Authorization") != "Bearer key" {
			refuse(w, 401, "Incorrect API key provided")
			return
		}
		parts := body.Messages[0].Content
		_ = json.NewEncoder(w).Encode(object{"choices": []any{object{"message": object{"content": fmt.Sprintf("%s: %s %.22s", body.Model, parts[0].Text, parts[1].ImageURL.URL)}}}})
	})
	mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			MaxTokens int `json:"max_tokens"`
			Messages  []struct {
				Content []struct {
					Type, Text string
					Source     struct {
						MediaType string `json:"media_type"`
						Data      []byte
					}
				}
			}
		}
		if json.NewDecoder(r.Body).Decode(&body) != nil || r.Header.Get("X-Api-Key") != "key" || r.Header.Get("Anthropic-Version") != "2023-06-01" || body.MaxTokens == 0 {
			refuse(w, 400, "invalid request")
			return
		}
		parts := body.Messages[0].Content
		_ = json.NewEncoder(w).Encode(object{"content": []any{object{"type": "text", "text": fmt.Sprintf("%s %d %s", parts[0].Source.MediaType, len(parts[0].Source.Data), parts[1].Text)}}})
	})
	mux.HandleFunc("POST /v1/audio/transcriptions", func(w http.ResponseWriter, r *http.Request) {
		file, header, err := r.FormFile("file")
		if err != nil {
			refuse(w, 400, err.Error())
			return
		}
		data, _ := io.ReadAll(file)
		_ = json.NewEncoder(w).Encode(object{"text": fmt.Sprintf("%s %s %s %d %s", r.FormValue("model"), r.FormValue("language"), header.Filename, len(data), header.Header.Get("Content-Type"))})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// kit is a pack with what it needs.
type kit struct {
	*builtin.Pack
	dir  string
	kept map[string][]byte
}

func newKit(t *testing.T, change func(*Options)) *kit {
	t.Helper()
	k := &kit{dir: t.TempDir(), kept: map[string][]byte{}}
	folders, err := folder.Open([]string{k.dir}, folder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := provider(t)
	key := func(context.Context) (string, error) { return "key", nil }
	o := Options{
		Folders: folders, MaxBytes: 100_000,
		Vision: &Provider{Kind: "openai", URL: s.URL + "/v1", Model: "m", Key: key, Transport: http.DefaultTransport, Section: "builtin.media.vision"},
		Speech: &Provider{URL: s.URL + "/v1", Model: "whisper-1", Transport: http.DefaultTransport, Section: "builtin.media.speech"},
		Put: func(_ context.Context, _ string, _ artifact.Kind, name, kind string, r io.Reader) (toolroom.Artifact, error) {
			data, err := io.ReadAll(r)
			handle := fmt.Sprintf("handle-%d", len(k.kept))
			k.kept[handle] = data
			return toolroom.Artifact{Handle: handle, Name: name, MIMEType: kind}, err
		},
	}
	if change != nil {
		change(&o)
	}
	k.Pack = Pack(o)
	for name, data := range map[string][]byte{"a.jpg": jpegWithEXIF(t), "a.png": pngWithText(t), "a.wav": []byte("RIFF\x24\x00\x00\x00WAVEfmt "), "a.txt": []byte("text"), "fake.png": []byte("MZ no picture"), "big.bin": make([]byte, 200_000)} {
		if err := os.WriteFile(filepath.Join(k.dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func (k *kit) call(t *testing.T, tool string, args map[string]any) (*source.Output, error) {
	t.Helper()
	return k.Source().Call(t.Context(), &source.Request{Call: "call_1", Tool: toolroom.MustParseID(tool), Arguments: builtin.Arguments(args), Emit: func(toolroom.Event) {}})
}

func TestProvidersGetWhatTheirDocumentationAsksFor(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	anthropic := newKit(t, func(o *Options) { o.Vision.Kind = "anthropic" })
	for _, tt := range []struct {
		kit  *kit
		tool string
		args map[string]any
		want string
	}{
		{k, "image:analyze", map[string]any{"path": "a.png"}, "m: Describe this image: what it shows, and any text in it. data:image/png;base64,"},
		{k, "image:analyze", map[string]any{"data": base64.StdEncoding.EncodeToString(jpegWithEXIF(t)), "mimeType": "image/png", "prompt": "What?"}, "m: What? data:image/jpeg;base64"},
		{anthropic, "image:analyze", map[string]any{"path": "a.jpg", "prompt": "Why?", "remove_metadata": true}, "image/jpeg "},
		{k, "audio:transcribe", map[string]any{"path": "a.wav", "language": "de"}, "whisper-1 de sound.wav 16 audio/wav"},
	} {
		out, err := tt.kit.call(t, tt.tool, tt.args)
		if err != nil || !strings.HasPrefix(out.Content[0].Text, tt.want) {
			t.Errorf("%s %v: %+v %v, want %s", tt.tool, tt.args["path"], out, err, tt.want)
		}
	}
}

func TestMediaAreSentAsContentAndArtifacts(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	out, err := k.call(t, "media:send", map[string]any{"path": "a.jpg", "caption": "Ulm", "remove_metadata": true})
	if err != nil {
		t.Fatal(err)
	}
	if c := out.Content; len(c) != 2 || c[0].Text != "Ulm" || c[1].Type != toolroom.ContentImage || c[1].MIMEType != "image/jpeg" || bytes.Contains(c[1].Data, []byte(hidden)) || bytes.Contains(k.kept["handle-0"], []byte(hidden)) {
		t.Errorf("%+v", out)
	}
	if out, err = k.call(t, "media:send", map[string]any{"path": "a.txt", "filename": "../../x.txt"}); err != nil || out.Content[1].Type != toolroom.ContentResource || !bytes.Contains(out.Value, []byte(`"filename":"x.txt"`)) {
		t.Errorf("%s %v", out.Value, err)
	}
}

func TestAFileGoesByAChannel(t *testing.T) {
	t.Parallel()
	var got []string
	mux := http.NewServeMux()
	file := func(field string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			f, header, err := r.FormFile(field)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			data, _ := io.ReadAll(f)
			got = append(got, fmt.Sprintf("%s %s%s %s%s %s %v", r.URL.Path, r.FormValue("chat_id"), r.FormValue("recipient"), r.FormValue("caption"), r.FormValue("text"), header.Filename, bytes.Equal(data, jpegWithEXIF(t))))
			fmt.Fprint(w, `{"ok": true, "result": {"message_id": 42}}`)
		}
	}
	mux.HandleFunc("POST /botkey/sendPhoto", file("photo"))
	mux.HandleFunc("POST /hook", file("file"))
	mux.HandleFunc("POST /files.getUploadURLExternal", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"ok": true, "upload_url": "http://%s/up", "file_id": "F1"}`, r.Host)
	})
	mux.HandleFunc("POST /up", func(_ http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		got = append(got, fmt.Sprintf("/up %v %q", bytes.Equal(data, jpegWithEXIF(t)), r.Header.Get("Authorization")))
	})
	mux.HandleFunc("POST /files.completeUploadExternal", func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		got = append(got, string(data))
		fmt.Fprint(w, `{"ok": true}`)
	})
	mux.HandleFunc("POST /_matrix/media/v3/upload", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"content_uri": "mxc://example.com/1"}`)
	})
	mux.HandleFunc("PUT /_matrix/client/v3/rooms/{room}/send/m.room.message/{id}", func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		got = append(got, r.PathValue("room")+" "+string(data))
		fmt.Fprint(w, `{"event_id": "$1"}`)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	key := func(context.Context) (string, error) { return "key", nil }
	k := newKit(t, func(o *Options) {
		o.Channels = message.Channels{
			"telegram": {Provider: "telegram", URL: s.URL, Key: key, Recipients: []string{"7"}, Transport: http.DefaultTransport},
			"hook":     {Provider: "webhook", URL: s.URL + "/hook", Recipients: []string{"ann"}, Transport: http.DefaultTransport},
			"slack":    {Provider: "slack", URL: s.URL, Key: key, Recipients: []string{"C1", "#team"}, Transport: http.DefaultTransport},
			"matrix":   {Provider: "matrix", URL: s.URL, Key: key, Recipients: []string{"!r:x"}, Transport: http.DefaultTransport},
		}
	})
	for channel, want := range map[string]string{
		"telegram": "/botkey/sendPhoto 7 Hi a.jpg true", "hook": "/hook ann Hi a.jpg true",
		"slack":  `/up true "" {"channel_id":"C1","files":[{"id":"F1","title":"a.jpg"}],"initial_comment":"Hi"}`,
		"matrix": `!r:x {"body":"Hi","filename":"a.jpg","info":{"mimetype":"image/jpeg"`,
	} {
		got = nil
		out, err := k.call(t, "media:send", map[string]any{"path": "a.jpg", "caption": "Hi", "channel": channel})
		if text := strings.Join(got, " "); err != nil || !strings.HasPrefix(text, want) || !bytes.Contains(out.Value, []byte(`"id":`)) {
			t.Errorf("%s: %q %v, want %q", channel, text, err, want)
		}
		if channel == "telegram" && !strings.HasSuffix(out.Content[0].Text, " bytes) by telegram to 7.") {
			t.Errorf("says %q", out.Content[0].Text)
		}
	}
	for _, args := range []map[string]any{{"channel": "slack", "recipient": "#team"}, {"channel": "slack", "recipient": "eve"}, {"channel": "none"}} {
		args["path"] = "a.jpg"
		if _, err := k.call(t, "media:send", args); err == nil {
			t.Errorf("%v was sent", args)
		}
	}
}

// A file that cannot be kept is not sent either: a call that fails has sent nothing.
func TestAFileIsKeptBeforeItIsSent(t *testing.T) {
	t.Parallel()
	sent := false
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent = true }))
	defer s.Close()
	full := errors.New("no space left")
	k := newKit(t, func(o *Options) {
		o.Channels = message.Channels{"hook": {Provider: "webhook", URL: s.URL, Recipients: []string{"ann"}, Transport: http.DefaultTransport}}
		o.Put = func(context.Context, string, artifact.Kind, string, string, io.Reader) (toolroom.Artifact, error) {
			return toolroom.Artifact{}, full
		}
	})
	if _, err := k.call(t, "media:send", map[string]any{"path": "a.jpg", "channel": "hook"}); !errors.Is(err, full) || sent {
		t.Errorf("sent: %v, %v", sent, err)
	}
}

func TestWrongInputIsRefused(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	for _, tt := range []struct {
		tool string
		args map[string]any
		code toolroom.Code
	}{
		{"image:analyze", map[string]any{}, toolroom.CodeInvalidArguments},
		{"image:analyze", map[string]any{"path": "a.png", "data": "AA=="}, toolroom.CodeInvalidArguments},
		{"image:analyze", map[string]any{"path": "a.txt"}, toolroom.CodeInvalidArguments},
		{"image:analyze", map[string]any{"path": "fake.png"}, toolroom.CodeInvalidArguments},
		{"image:analyze", map[string]any{"data": base64.StdEncoding.EncodeToString([]byte("MZ")), "mimeType": "image/png"}, toolroom.CodeInvalidArguments},
		{"image:analyze", map[string]any{"data": "no base64!"}, toolroom.CodeInvalidArguments},
		{"media:send", map[string]any{"path": "big.bin"}, toolroom.CodeResourceLimit},
		{"media:send", map[string]any{"path": "a.txt", "remove_metadata": true}, toolroom.CodeUnsupported},
		{"audio:transcribe", map[string]any{"path": "a.png"}, toolroom.CodeInvalidArguments},
	} {
		if _, err := k.call(t, tt.tool, tt.args); toolroom.CodeOf(err) != tt.code {
			t.Errorf("%s %v: %v", tt.tool, tt.args, err)
		}
	}
	bare := newKit(t, func(o *Options) { o.Vision, o.Speech = nil, nil })
	for tool, section := range map[string]string{"image:analyze": "vision", "audio:transcribe": "speech"} {
		_, err := bare.call(t, tool, map[string]any{"path": "a.png"})
		var known *toolroom.Error
		if !errors.As(err, &known) || !strings.Contains(known.Hint, "builtin: {media: {"+section) {
			t.Errorf("%s: %v", tool, err)
		}
	}
}

func TestPicturesSayWhatThisMachineLacks(t *testing.T) {
	t.Parallel()
	k := newKit(t, func(o *Options) { o.Devices = t.TempDir() })
	for tool, want := range map[string]string{"screen:capture": "without a display", "camera:capture": "no camera"} {
		if _, err := k.call(t, tool, map[string]any{}); toolroom.CodeOf(err) != toolroom.CodeUnsupported || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", tool, err)
		}
	}
	none := newKit(t, func(o *Options) { o.Environ = []string{"DISPLAY=:1", "PATH=" + t.TempDir()} })
	if _, err := none.call(t, "screen:capture", map[string]any{}); toolroom.CodeOf(err) != toolroom.CodeUnsupported {
		t.Errorf("got %v", err)
	}
	// A program takes the picture that camera:capture returns.
	bin, devices := t.TempDir(), t.TempDir()
	shot := filepath.Join(bin, "shot.png")
	if err := errors.Join(
		os.WriteFile(shot, pngWithText(t), 0o600), os.WriteFile(filepath.Join(devices, "video0"), nil, 0o600),
		os.WriteFile(filepath.Join(bin, "ffmpeg"), []byte("#!/bin/sh\nexec /bin/cat "+shot+"\n"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	k = newKit(t, func(o *Options) { o.Environ, o.Devices = []string{"PATH=" + bin}, devices })
	out, err := k.call(t, "camera:capture", map[string]any{})
	if err != nil || out.Content[1].MIMEType != "image/png" || len(k.kept) != 1 {
		t.Errorf("%v %v", out, err)
	}
}

// The screen of a real X server.
func TestTheScreenOfAnXServer(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"Xvfb", "maim"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip(err) // apt-get install xvfb maim
		}
	}
	server := exec.Command("Xvfb", "-displayfd", "1", "-screen", "0", "320x200x24", "-nolisten", "tcp")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	number := make([]byte, 8)
	n, err := out.Read(number)
	if err != nil {
		t.Fatal(err)
	}
	display := ":" + strings.TrimSpace(string(number[:n]))
	k := newKit(t, func(o *Options) { o.Environ = []string{"DISPLAY=" + display, "PATH=" + os.Getenv("PATH")} })
	began := time.Now()
	got, err := k.call(t, "screen:capture", map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(got.Content[1].Data))
	if err != nil || img.Bounds().Dx() != 320 || time.Since(began) > captureTime {
		t.Errorf("%v %v", img, err)
	}
}
