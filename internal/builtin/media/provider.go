package media

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/source"
)

// Provider is a model provider.
type Provider struct {
	// Kind is the API: openai, which others offer too, or anthropic.
	Kind string
	// URL is the address of the API, including its version.
	URL string
	// Key returns the key; nil means that none is needed.
	Key       func(context.Context) (string, error)
	Model     string
	Transport http.RoundTripper
	// Section is the section of the config that names it, such as builtin.media.vision.
	Section string
}

// addresses are the default addresses of providers.
var addresses = map[string]string{"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com/v1"}

// Address returns url, or the default address of a kind of provider if url is empty.
func Address(kind, url string) string {
	return strings.TrimSuffix(cmp.Or(url, addresses[kind], addresses["openai"]), "/")
}

func noProvider(what, tool string) *toolroom.Error {
	example := `vision: {provider: anthropic, model: MODEL, key: "secret://anthropic/key"}`
	if what == "speech" {
		example = `speech: {model: whisper-1, key: "secret://openai/key"}`
	}
	return toolroom.Errorf(toolroom.CodeUnsupported, "%s has no provider", tool).WithHint("name one in toolroom.yaml: builtin: {media: {%s}}", example)
}

func (p *Provider) key(ctx context.Context) (string, error) {
	if p.Key == nil {
		return "", nil
	}
	return p.Key(ctx)
}

func (p *Provider) effects() []toolroom.Effect {
	effects := []toolroom.Effect{{Kind: toolroom.EffectSend}}
	if p != nil {
		effects = append(effects, toolroom.Effect{Kind: toolroom.EffectHost, Mode: "post", Target: p.URL})
	}
	return effects
}

const maxAnswer = 4 << 20

// post sends a request and decodes the JSON response.
func (p *Provider) post(ctx context.Context, path, kind string, body io.Reader, header http.Header, to any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+path, body)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeUnsupported, "the address of %s cannot be used", p.Section)
	}
	key, err := p.key(ctx)
	if err != nil {
		return err
	}
	r.Header = header
	r.Header.Set("Content-Type", kind)
	switch {
	case key == "":
	case p.Kind == "anthropic":
		r.Header.Set("X-Api-Key", key)
	default:
		r.Header.Set("Authorization", "Bearer "+key)
	}
	client := &http.Client{Transport: p.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		if _, known := errors.AsType[*toolroom.Error](err); known || ctx.Err() != nil {
			return err
		}
		e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the provider cannot be reached: %w", err).WithHint("check %s.url in toolroom.yaml", p.Section)
		e.Retryable = true
		return e
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the provider's answer broke off: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return p.responseError(response.StatusCode, answer)
	}
	if err := json.Unmarshal(answer, to); err != nil {
		return toolroom.Errorf(toolroom.CodeUpstreamError, "the provider did not answer with JSON: %w", err).WithHint("check %s.url in toolroom.yaml", p.Section)
	}
	return nil
}

// responseError returns the error for a failed request to the provider.
func (p *Provider) responseError(status int, answer []byte) error {
	var told struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(answer, &told) != nil || told.Error.Message == "" {
		told.Error.Message = strings.Join(strings.Fields(string(answer[:min(len(answer), 300)])), " ")
	}
	e := toolroom.Errorf(toolroom.CodeUpstreamError, "the provider answered %d %s: %.300s", status, http.StatusText(status), told.Error.Message)
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return e.WithHint("check %s.key in toolroom.yaml", p.Section)
	case status == http.StatusNotFound:
		return e.WithHint("check %s.url and model in toolroom.yaml", p.Section)
	case status == http.StatusRequestEntityTooLarge:
		e.Code = toolroom.CodeResourceLimit
		return e.WithHint("make it smaller")
	case status == http.StatusTooManyRequests:
		e.Code, e.Retryable = toolroom.CodeRateLimited, true
	case status >= 500:
		e.Code, e.Retryable = toolroom.CodeUpstreamUnavailable, true
	}
	return e
}

// imageTypes are the media types that models accept.
var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// AnalyzeArgs are the arguments of image:analyze.
type AnalyzeArgs struct {
	Input
	Prompt         string `json:"prompt,omitempty" jsonschema:"what to find out; the default is to describe the image"`
	RemoveMetadata bool   `json:"remove_metadata,omitempty" jsonschema:"remove EXIF data (place, time, camera) and texts before it is sent to the provider"`
}

// Analysis is the value of image:analyze.
type Analysis struct {
	Text     string `json:"text" jsonschema:"what the model says"`
	Model    string `json:"model" jsonschema:"the model"`
	MIMEType string `json:"mime_type" jsonschema:"type of the image, as its bytes say"`
	Bytes    int    `json:"bytes" jsonschema:"size that was sent"`
}

const defaultPrompt = "Describe this image: what it shows, and any text in it."

func (m *media) analyze() builtin.Tool {
	properties := inputProperties(imageTypes)
	properties["prompt"] = builtin.Property{"maxLength": 20_000}
	return builtin.MustTool(builtin.Spec[AnalyzeArgs, Analysis]{
		Tool: definition("image:analyze", "Analyze an image",
			"Analyze an image with a vision model: describe what a picture, photo, screenshot or chart shows, read its text, answer a question about it.",
			builtin.Hints(true, false, true), map[string]any{"path": "chart.png", "prompt": "Which month is the highest?"}),
		Arguments: properties,
		Predict: func(_ *source.Request, in AnalyzeArgs) []toolroom.Effect {
			return append(in.reads(), m.Vision.effects()...)
		},
		Run: func(ctx context.Context, req *source.Request, in AnalyzeArgs) (Analysis, []toolroom.Content, error) {
			if m.Vision == nil {
				return Analysis{}, nil, noProvider("vision", "image:analyze")
			}
			b, err := m.load(ctx, req, in.Input, imageTypes...)
			if err == nil && in.RemoveMetadata {
				b.data, err = withoutMetadata(b.data, b.kind)
			}
			if err != nil {
				return Analysis{}, nil, err
			}
			text, err := m.Vision.describe(ctx, b, cmp.Or(in.Prompt, defaultPrompt))
			return Analysis{text, m.Vision.Model, b.kind, len(b.data)}, builtin.Text(text), err
		},
	})
}

// maxTokens is the maximum length of an answer about an image.
const maxTokens = 2048

// describe asks a model about an image.
func (p *Provider) describe(ctx context.Context, b *blob, prompt string) (string, error) {
	type object = map[string]any
	encoded := base64.StdEncoding.EncodeToString(b.data)
	path, header := "/chat/completions", http.Header{}
	parts := []any{object{"type": "text", "text": prompt}, object{"type": "image_url", "image_url": object{"url": "data:" + b.kind + ";base64," + encoded}}}
	if p.Kind == "anthropic" {
		path = "/messages"
		header.Set("Anthropic-Version", "2023-06-01")
		parts = []any{object{"type": "image", "source": object{"type": "base64", "media_type": b.kind, "data": encoded}}, object{"type": "text", "text": prompt}}
	}
	body, err := json.Marshal(object{"model": p.Model, "max_tokens": maxTokens, "messages": []any{object{"role": "user", "content": parts}}})
	if err != nil {
		return "", err
	}
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
		Content []struct{ Type, Text string }
	}
	if err := p.post(ctx, path, "application/json", bytes.NewReader(body), header, &answer); err != nil {
		return "", err
	}
	var text []string
	for _, c := range answer.Choices {
		text = append(text, c.Message.Content)
	}
	for _, c := range answer.Content {
		text = append(text, c.Text)
	}
	if whole := strings.TrimSpace(strings.Join(text, "\n")); whole != "" {
		return whole, nil
	}
	return "", toolroom.Errorf(toolroom.CodeUpstreamError, "the model %s said nothing", p.Model).WithHint("check that it is a model for images: %s.model in toolroom.yaml", p.Section)
}

// soundTypes are the media types that can be transcribed.
var soundTypes = []string{"audio/ogg", "audio/wav", "audio/mpeg", "audio/webm"}

// TranscribeArgs are the arguments of audio:transcribe.
type TranscribeArgs struct {
	Input
	Language string `json:"language,omitempty" jsonschema:"language that is spoken, such as de; detected if left out"`
	Prompt   string `json:"prompt,omitempty" jsonschema:"names and words that occur, to help with spelling"`
}

// Transcript is the value of audio:transcribe.
type Transcript struct {
	Text     string `json:"text" jsonschema:"what is said"`
	Model    string `json:"model" jsonschema:"the model"`
	MIMEType string `json:"mime_type" jsonschema:"type of the sound, as its bytes say"`
}

func (m *media) transcribe() builtin.Tool {
	properties := inputProperties(soundTypes)
	properties["language"] = builtin.Property{"pattern": "^[a-z]{2,3}$"}
	properties["prompt"] = builtin.Property{"maxLength": 2000}
	return builtin.MustTool(builtin.Spec[TranscribeArgs, Transcript]{
		Tool: definition("audio:transcribe", "Transcribe audio", "Transcribe audio to text: write down what is said in a recording, voice message or other speech (ogg, wav, mp3, webm).",
			builtin.Hints(true, false, true), map[string]any{"path": "voice.ogg", "language": "en"}),
		Arguments: properties,
		Predict: func(_ *source.Request, in TranscribeArgs) []toolroom.Effect {
			return append(in.reads(), m.Speech.effects()...)
		},
		Run: func(ctx context.Context, req *source.Request, in TranscribeArgs) (Transcript, []toolroom.Content, error) {
			if m.Speech == nil {
				return Transcript{}, nil, noProvider("speech", "audio:transcribe")
			}
			b, err := m.load(ctx, req, in.Input, soundTypes...)
			if err != nil {
				return Transcript{}, nil, err
			}
			text, err := m.Speech.transcribe(ctx, b, in)
			return Transcript{text, m.Speech.Model, b.kind}, builtin.Text(text), err
		},
	})
}

// transcribe asks a model to transcribe a sound.
func (p *Provider) transcribe(ctx context.Context, b *blob, in TranscribeArgs) (string, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, field := range [][2]string{{"model", p.Model}, {"response_format", "json"}, {"language", in.Language}, {"prompt", in.Prompt}} {
		if field[1] != "" {
			_ = form.WriteField(field[0], field[1]) // writes to a buffer cannot fail
		}
	}
	part, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {mime.FormatMediaType("form-data", map[string]string{"name": "file", "filename": "sound" + extensionOf(b.kind)})},
		"Content-Type":        {b.kind},
	})
	if err != nil {
		return "", err
	}
	_, _ = part.Write(b.data)
	_ = form.Close()
	var answer struct{ Text *string }
	if err := p.post(ctx, "/audio/transcriptions", form.FormDataContentType(), &body, http.Header{}, &answer); err != nil {
		return "", err
	}
	if answer.Text == nil {
		return "", toolroom.Errorf(toolroom.CodeUpstreamError, "the provider's answer has no text").WithHint("check %s.url in toolroom.yaml", p.Section)
	}
	return *answer.Text, nil
}

// String names the provider for people.
func (p *Provider) String() string { return fmt.Sprintf("%s at %s", p.Model, p.URL) }
