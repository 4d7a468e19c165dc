// Package storage provides the built-in tools for buckets of MinIO, Amazon S3 and other servers
// with the S3 protocol. They share files by links that expire, and store documents in memory.
package storage

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/folder"
)

// Options configure the pack.
type Options struct {
	// Client is the client of the server; nil means that the config names none.
	Client *Client
	// Bucket is the default bucket. Buckets are the others that tools may use; "*" is any.
	Bucket  string
	Buckets []string
	// MaxExpiry limits how long a shared link works (24 h).
	MaxExpiry time.Duration
	// Folders are those of the file tools; nil means none.
	Folders *folder.Folders
	// Artifact opens an artifact of a caller.
	Artifact func(ctx context.Context, who toolroom.Identity, handle string) (*os.File, toolroom.Artifact, error)
	// Save stores a note of a caller, and Has reports whether one exists.
	Save func(ctx context.Context, who toolroom.Identity, namespace, text string, add bool) error
	Has  func(who toolroom.Identity, namespace string) bool
	// State is the folder that records which objects were synchronised.
	State string
}

// Pack returns the tools.
func Pack(o Options) *builtin.Pack {
	o.MaxExpiry = cmp.Or(o.MaxExpiry, 24*time.Hour)
	s := &storage{o}
	p := &builtin.Pack{Name: "storage", Tools: []builtin.Tool{s.share(), s.ingest(), s.sync()}, Check: s.check}
	if s.Folders != nil {
		p.Dir = s.Folders.Dir()
	}
	if o.Client == nil {
		p.Missing = toolroom.Errorf(toolroom.CodeUnsupported, "no storage is configured").
			WithHint(`name it in toolroom.yaml: builtin: {storage: {url: "https://s3.example.com", bucket: docs, access_key: ID, secret_key: "secret://s3/key"}}`)
	} else if t, ok := o.Client.Transport.(interface{ CloseIdleConnections() }); ok {
		p.Close = func() error { t.CloseIdleConnections(); return nil }
	}
	return p
}

type storage struct{ Options }

// check returns an error if the bucket cannot be listed.
func (s *storage) check(ctx context.Context) *toolroom.Error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if s.Bucket == "" {
		_, err := s.Client.Keys(ctx)
		return asError(err)
	}
	client := *s.Client
	client.Wait = 10 * time.Millisecond
	_, _, err := client.list(ctx, s.Bucket, "", 1)
	return asError(err)
}

func asError(err error) *toolroom.Error {
	if err == nil {
		return nil
	}
	return toolroom.AsError(err)
}

// bucket returns the bucket of a call, or an error if the config does not permit it.
func (s *storage) bucket(asked string) (string, error) {
	name := cmp.Or(asked, s.Bucket)
	switch {
	case name == "":
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "there is no default bucket; name one").WithHint("pass bucket, or set builtin.storage.bucket in toolroom.yaml")
	case name == s.Bucket, slices.Contains(s.Buckets, name), slices.Contains(s.Buckets, "*"):
		return name, nil
	}
	return "", toolroom.Errorf(toolroom.CodeDenied, "the tools may not use the bucket %.80q", name).
		WithHint("buckets are those in toolroom.yaml: builtin.storage.bucket and buckets")
}

// objectURL returns the address of an object, for predicted effects.
func (s *storage) objectURL(bucket, key string) string {
	if s.Client == nil || s.Client.Endpoint == nil {
		return ""
	}
	return s.Client.address(cmp.Or(bucket, s.Bucket), key, nil).String()
}

func (s *storage) hostEffect(mode, bucket, key string) toolroom.Effect {
	return toolroom.Effect{Kind: toolroom.EffectHost, Mode: mode, Target: s.objectURL(bucket, key)}
}

// transferError converts an error of a transfer to one for the caller.
func transferError(ctx context.Context, err error) error {
	if _, known := errors.AsType[*toolroom.Error](err); err == nil || known || ctx.Err() != nil {
		return err
	}
	e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the storage cannot be reached, or the transfer broke off: %w", err).
		WithHint("call the tool again: an upload goes on where it was. Check builtin.storage.url in toolroom.yaml if this stays")
	e.Retryable = true
	if errors.Is(err, io.ErrUnexpectedEOF) && strings.Contains(err.Error(), "shorter") {
		e = toolroom.Errorf(toolroom.CodeConflict, "%w", err)
	}
	return e
}

// bucketProperty is the schema of a bucket name.
var bucketProperty = builtin.Property{"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$"}

const maxKey = 1024

func definition(name, title, description string, hints toolroom.Hints, examples ...map[string]any) toolroom.Tool {
	t := toolroom.Tool{
		ID: toolroom.ID{Namespace: "minio", Name: name}, Title: title, Description: description, Hints: hints, Tags: []string{"storage"},
		Timeout: time.Hour, DefaultTimeout: 10 * time.Minute,
	}
	for _, e := range examples {
		t.Examples = append(t.Examples, toolroom.Example{Arguments: builtin.Arguments(e)})
	}
	return t
}
