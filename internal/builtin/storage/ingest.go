package storage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofrs/flock"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/atomicfile"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/memory"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/source"
)

// IngestArgs are the arguments of minio:ingest.
type IngestArgs struct {
	ObjectKey string `json:"object_key" jsonschema:"name of the object"`
	Bucket    string `json:"bucket,omitempty" jsonschema:"bucket of the object; the default is that of the config"`
	Namespace string `json:"namespace,omitempty" jsonschema:"memory namespace that gets the text"`
	Mode      string `json:"mode,omitempty" jsonschema:"append adds to the namespace, replace overwrites it"`
	MaxChars  int    `json:"max_chars,omitempty" jsonschema:"the most characters to keep"`
	Force     bool   `json:"force,omitempty" jsonschema:"read it as text although it does not look like text"`
}

// Ingested is the value of minio:ingest.
type Ingested struct {
	Bucket    string `json:"bucket" jsonschema:"the bucket"`
	ObjectKey string `json:"object_key" jsonschema:"name of the object"`
	Namespace string `json:"namespace" jsonschema:"memory namespace that has the text"`
	Chars     int    `json:"chars" jsonschema:"characters that were kept"`
	Truncated bool   `json:"truncated,omitempty" jsonschema:"the object has more text than was kept"`
}

const (
	defaultNamespace = "global/knowledge"
	modeAppend       = "append"
	modeReplace      = "replace"
	defaultChars     = 200_000
	maxChars         = memory.MaxNote / utf8.UTFMax
)

func modes(fallback string) builtin.Property {
	return builtin.Property{"enum": []string{modeAppend, modeReplace}, "default": fallback}
}

func (s *storage) ingest() builtin.Tool {
	return builtin.MustTool(builtin.Spec[IngestArgs, Ingested]{
		Tool: definition("ingest", "Ingest an object into memory",
			"Ingest a document from MinIO or S3 storage: read one object of a bucket (text, PDF, Word, HTML, CSV) and put its text into a memory namespace, for memory:search.",
			builtin.Hints(false, true, true), map[string]any{"object_key": "handbook/travel.pdf", "namespace": "handbook"}),
		Arguments: map[string]builtin.Property{
			"object_key": {"minLength": 1, "maxLength": maxKey}, "bucket": bucketProperty,
			"namespace": {"pattern": memory.NamespaceForm, "default": defaultNamespace}, "mode": modes(modeAppend),
			"max_chars": {"minimum": 1, "maximum": maxChars, "default": defaultChars},
		},
		Predict: func(_ *source.Request, in IngestArgs) []toolroom.Effect {
			effects := []toolroom.Effect{s.hostEffect("get", in.Bucket, in.ObjectKey)}
			if in.Mode == modeReplace {
				effects = append(effects, toolroom.Effect{Kind: toolroom.EffectDestroy})
			}
			return effects
		},
		Run: func(ctx context.Context, req *source.Request, in IngestArgs) (Ingested, []toolroom.Content, error) {
			bucket, err := s.bucket(in.Bucket)
			if err != nil {
				return Ingested{}, nil, err
			}
			out, err := s.ingestObject(ctx, req, bucket, in)
			if err != nil {
				return Ingested{}, nil, transferError(ctx, err)
			}
			return out, builtin.Text(out.String() + "."), nil
		},
	})
}

func (i Ingested) String() string {
	text := fmt.Sprintf("%s: %d characters in %s", i.ObjectKey, i.Chars, i.Namespace)
	if i.Truncated {
		text += " (it has more)"
	}
	return text
}

// ingestObject stores the text of an object in memory.
func (s *storage) ingestObject(ctx context.Context, req *source.Request, bucket string, in IngestArgs) (Ingested, error) {
	out := Ingested{Bucket: bucket, ObjectKey: in.ObjectKey, Namespace: cmp.Or(in.Namespace, defaultNamespace)}
	from, err := s.Client.open(ctx, bucket, in.ObjectKey)
	if err != nil {
		return out, err
	}
	defer from.Close()
	content, more, err := readText(ctx, from, cmp.Or(in.MaxChars, defaultChars), in.Force)
	if err != nil {
		return out, asContentError(ctx, err)
	}
	out.Chars, out.Truncated = utf8.RuneCountInString(content), more
	if strings.TrimSpace(content) == "" {
		return out, &contentError{toolroom.Errorf(toolroom.CodeExecutionFailed, "%.200s has no text", in.ObjectKey).WithHint("a scanned PDF is a picture: it needs text recognition first")}
	}
	return out, s.Save(ctx, req.Identity, out.Namespace, noteHeading(bucket, in.ObjectKey)+strings.TrimSpace(content)+"\n", in.Mode != modeReplace)
}

// contentError is an error about the content of an object. It recurs until the object changes.
type contentError struct{ err *toolroom.Error }

func (e *contentError) Error() string { return e.err.Error() }
func (e *contentError) Unwrap() error { return e.err }

// asContentError returns err as a contentError, unless a retry may succeed.
func asContentError(ctx context.Context, err error) error {
	var known *toolroom.Error
	if !errors.As(err, &known) || known.Retryable || ctx.Err() != nil {
		return err
	}
	switch known.Code {
	case toolroom.CodeUnsupported, toolroom.CodeExecutionFailed, toolroom.CodeInvalidArguments, toolroom.CodeResourceLimit:
		return &contentError{known}
	}
	return err
}

// SyncArgs are the arguments of minio:sync.
type SyncArgs struct {
	Prefix        string `json:"prefix" jsonschema:"beginning of the names of the objects; an empty one is the whole bucket"`
	Bucket        string `json:"bucket,omitempty" jsonschema:"bucket of the objects; the default is that of the config"`
	NamespaceBase string `json:"namespace_base,omitempty" jsonschema:"memory namespace below which each object has one"`
	Mode          string `json:"mode,omitempty" jsonschema:"what happens to the namespace of a changed object: replace overwrites it, append adds to it"`
	MaxObjects    int    `json:"max_objects,omitempty" jsonschema:"the most objects to read; call again for the rest"`
	MaxChars      int    `json:"max_chars_per_object,omitempty" jsonschema:"the most characters to keep of each"`
	Force         bool   `json:"force,omitempty" jsonschema:"also read objects that do not look like text"`
}

// Synced is the value of minio:sync.
type Synced struct {
	Ingested  []Ingested `json:"ingested" jsonschema:"new and changed objects, whose text is in memory now"`
	Unchanged int        `json:"unchanged" jsonschema:"objects that are in memory already and have not changed"`
	Skipped   []Skipped  `json:"skipped" jsonschema:"objects that could not be read"`
	More      bool       `json:"more,omitempty" jsonschema:"there are more objects: call again"`
}

// Skipped is an object that was not read.
type Skipped struct {
	ObjectKey string `json:"object_key" jsonschema:"name of the object"`
	Reason    string `json:"reason" jsonschema:"why it was not read"`
}

const (
	defaultObjects = 50
	maxObjects     = 1000
	// maxListed is the maximum number of objects that one call lists.
	maxListed = 100_000
	// saveEvery is the number of objects after which a call saves its progress. A killed call
	// reads at most that many again.
	saveEvery = 5 * time.Second
)

func (s *storage) sync() builtin.Tool {
	return builtin.MustTool(builtin.Spec[SyncArgs, Synced]{
		Tool: definition("sync", "Sync objects into memory",
			"Sync a prefix (folder) of a MinIO or S3 bucket into memory: all its documents, each in a namespace of its own. A later call reads only what is new or changed.",
			builtin.Hints(false, true, true), map[string]any{"prefix": "handbook/", "namespace_base": "handbook"}),
		Arguments: map[string]builtin.Property{
			"prefix": {"maxLength": maxKey}, "bucket": bucketProperty, "namespace_base": {"pattern": memory.NamespaceForm, "default": defaultNamespace}, "mode": modes(modeReplace),
			"max_objects":          {"minimum": 1, "maximum": maxObjects, "default": defaultObjects},
			"max_chars_per_object": {"minimum": 1, "maximum": maxChars, "default": defaultChars},
		},
		Predict: func(_ *source.Request, in SyncArgs) []toolroom.Effect {
			return []toolroom.Effect{s.hostEffect("get", in.Bucket, in.Prefix), {Kind: toolroom.EffectDestroy}}
		},
		Run: func(ctx context.Context, req *source.Request, in SyncArgs) (Synced, []toolroom.Content, error) {
			out, err := s.runSync(ctx, req, in)
			if err != nil {
				return Synced{}, nil, transferError(ctx, err)
			}
			var b strings.Builder
			fmt.Fprintf(&b, "%d objects read, %d unchanged, %d skipped.\n", len(out.Ingested), out.Unchanged, len(out.Skipped))
			for _, one := range out.Ingested {
				fmt.Fprintln(&b, one)
			}
			for _, one := range out.Skipped {
				fmt.Fprintf(&b, "skipped %s: %s\n", one.ObjectKey, one.Reason)
			}
			if out.More {
				b.WriteString("There are more: call again.\n")
			}
			return out, builtin.Text(b.String()), nil
		},
	})
}

func (s *storage) runSync(ctx context.Context, req *source.Request, in SyncArgs) (Synced, error) {
	out := Synced{Ingested: []Ingested{}, Skipped: []Skipped{}}
	bucket, err := s.bucket(in.Bucket)
	if err != nil {
		return out, err
	}
	base := cmp.Or(in.NamespaceBase, defaultNamespace)
	seen, err := s.openSyncedTags(ctx, req.Identity, bucket, base)
	if err != nil {
		return out, err
	}
	defer seen.close()
	objects, more, err := s.Client.list(ctx, bucket, in.Prefix, maxListed)
	if err != nil {
		return out, err
	}
	out.More = more
	names, read, saved := map[string]int{}, 0, time.Now()
	for _, o := range objects {
		names[namespaceOf(base, o.Key)]++
	}
	for _, o := range objects {
		namespace := namespaceOf(base, o.Key)
		if names[namespace] > 1 || len(namespace) > 200 || !namespaceForm().MatchString(namespace) {
			sum := sha256.Sum256([]byte(o.Key))
			namespace = base + "/" + hex.EncodeToString(sum[:8])
		}
		switch {
		case strings.HasSuffix(o.Key, "/"): // a folder of some clients
			continue
		case seen.tags[o.Key] == o.ETag && s.Has(req.Identity, namespace):
			out.Unchanged++
			continue
		case seen.tags[o.Key] == unreadable+o.ETag && !in.Force:
			out.Skipped = append(out.Skipped, Skipped{o.Key, "it could not be read before, and has not changed"})
			continue
		case read >= cmp.Or(in.MaxObjects, defaultObjects):
			out.More = true
			return out, seen.save()
		}
		read++
		one, err := s.ingestObject(ctx, req, bucket, IngestArgs{ObjectKey: o.Key, Namespace: namespace, Mode: cmp.Or(in.Mode, modeReplace), MaxChars: in.MaxChars, Force: in.Force})
		if err != nil {
			var known *toolroom.Error
			if !errors.As(err, &known) || known.Retryable || ctx.Err() != nil {
				return out, errors.Join(err, seen.save())
			}
			out.Skipped = append(out.Skipped, Skipped{o.Key, known.Message})
			if _, ok := errors.AsType[*contentError](err); ok {
				seen.tags[o.Key] = unreadable + o.ETag
			}
			continue
		}
		out.Ingested = append(out.Ingested, one)
		seen.tags[o.Key] = o.ETag
		if time.Since(saved) > saveEvery {
			if err := seen.save(); err != nil {
				return out, err
			}
			saved = time.Now()
		}
		req.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: float64(len(out.Ingested)), Message: o.Key}})
	}
	return out, seen.save()
}

var namespaceForm = pattern.Lazy(memory.NamespaceForm)

// unreadable is the prefix of the saved ETag of an object that could not be read.
const unreadable = "unreadable "

// syncedTags holds the ETags of the objects that a caller has synchronised to a namespace, in a
// locked file.
type syncedTags struct {
	path string
	lock *flock.Flock
	tags map[string]string
}

func (s *storage) openSyncedTags(ctx context.Context, who toolroom.Identity, bucket, base string) (*syncedTags, error) {
	if err := os.MkdirAll(s.State, 0o700); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(identity.Owner(who) + "\n" + s.Client.Endpoint.String() + "\n" + bucket + "\n" + base))
	f := &syncedTags{path: filepath.Join(s.State, hex.EncodeToString(sum[:12])+".json"), tags: map[string]string{}}
	f.lock = flock.New(f.path + ".lock")
	if _, err := f.lock.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(f.path)
	if err == nil && json.Unmarshal(data, &f.tags) != nil {
		f.tags = map[string]string{} // then all are read again
	}
	return f, nil
}

func (f *syncedTags) save() error {
	data, err := json.Marshal(f.tags)
	if err != nil {
		return err
	}
	return atomicfile.Write(f.path, data, 0o600)
}

func (f *syncedTags) close() { _ = f.lock.Unlock() }
