package embed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
)

// Kinds of services.
const (
	OpenAI = "openai"
	Ollama = "ollama"
)

// maxAnswer is the most bytes that an answer may have.
const maxAnswer = 32 << 20

// A Remote is an [Embedder] that asks one service. All fields but Key are required.
type Remote struct {
	Kind string
	// URL is the base: https://api.openai.com/v1, http://127.0.0.1:11434.
	URL       string
	Model     string
	Transport http.RoundTripper
	// Key returns the bearer token; nil sends none.
	Key func(context.Context) (string, error)
}

// DefaultURL returns the base URL of a kind; empty if it has none.
func DefaultURL(kind string) string {
	switch kind {
	case OpenAI:
		return "https://api.openai.com/v1"
	case Ollama:
		return "http://127.0.0.1:11434"
	}
	return ""
}

// Name implements [Embedder]. A service may change its model without a word, so the
// name holds where it is.
func (e *Remote) Name() string { return e.Kind + " " + e.URL + " " + e.Model }

// Embed implements [Embedder].
func (e *Remote) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	path := "/embeddings"
	if e.Kind == Ollama {
		path = "/api/embed"
	}
	body, err := json.Marshal(map[string]any{"model": e.Model, "input": texts})
	if err != nil {
		return nil, err
	}
	data, err := e.post(ctx, path, body)
	if err != nil {
		return nil, err
	}
	vectors, err := e.read(data, len(texts))
	if err != nil {
		return nil, fmt.Errorf("%s of model %s: %w", e.Kind, e.Model, err)
	}
	for _, v := range vectors {
		if err := normalise(v); err != nil {
			return nil, fmt.Errorf("%s of model %s: %w", e.Kind, e.Model, err)
		}
	}
	return vectors, nil
}

func (e *Remote) post(ctx context.Context, path string, body []byte) ([]byte, error) {
	address := strings.TrimSuffix(e.URL, "/") + path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if e.Key != nil {
		key, err := e.Key(ctx)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+key)
	}
	// A redirect would carry the texts, and perhaps the key, to where nobody sent them.
	client := http.Client{Transport: e.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("%s: %w", req.URL.Redacted(), err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("%s answered with more than %d bytes", req.URL.Redacted(), maxAnswer)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answered %s: %s", req.URL.Redacted(), resp.Status, problem(data))
	}
	return data, nil
}

// problem returns the message of an error of either API: {"error": {"message": …}} or
// {"error": …}.
func problem(data []byte) string {
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	var message string
	var object struct{ Message string }
	if json.Unmarshal(data, &body) == nil {
		if json.Unmarshal(body.Error, &message) != nil && json.Unmarshal(body.Error, &object) == nil {
			message = object.Message
		}
	}
	if message == "" {
		message = string(data)
	}
	return fmt.Sprintf("%.200q", message)
}

func (e *Remote) read(data []byte, texts int) ([][]float32, error) {
	if e.Kind == Ollama {
		var body struct {
			Embeddings [][]float32 `json:"embeddings"`
		}
		if err := remoteDecode(data, &body); err != nil {
			return nil, err
		}
		if len(body.Embeddings) != texts {
			return nil, fmt.Errorf("%d vectors for %d texts", len(body.Embeddings), texts)
		}
		return body.Embeddings, nil
	}
	var body struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := remoteDecode(data, &body); err != nil {
		return nil, err
	}
	vectors := make([][]float32, texts)
	for _, d := range body.Data {
		if d.Index < 0 || d.Index >= texts || vectors[d.Index] != nil {
			return nil, fmt.Errorf("a vector for text %d of %d", d.Index, texts)
		}
		vectors[d.Index] = d.Embedding
	}
	if len(body.Data) != texts {
		return nil, fmt.Errorf("%d vectors for %d texts", len(body.Data), texts)
	}
	return vectors, nil
}

// remoteDecode ignores members that it does not know, as answers have many.
func remoteDecode(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("the answer is not what was expected: %w", err)
	}
	return nil
}

// normalise scales v to length 1. It returns an error, and changes nothing, if v is zero or
// not finite.
func normalise(v []float32) error {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return errors.New("a vector has no direction")
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= scale
	}
	return nil
}
