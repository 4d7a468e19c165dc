package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/source"
)

// ShareArgs are the arguments of minio:share.
type ShareArgs struct {
	Path      string `json:"path,omitempty" jsonschema:"file to upload and share"`
	Handle    string `json:"handle,omitempty" jsonschema:"artifact to upload and share, in place of a file"`
	ObjectKey string `json:"object_key,omitempty" jsonschema:"name of the object: with path or handle where to upload to (made up if left out), else the object to share as it is"`
	Bucket    string `json:"bucket,omitempty" jsonschema:"bucket; the default is that of the config"`
	Expires   int    `json:"expires,omitempty" jsonschema:"how long the link works, in seconds; the config limits it"`
}

// Shared is the value of minio:share.
type Shared struct {
	URL       string    `json:"url" jsonschema:"link with which anyone can download the object until it expires"`
	Bucket    string    `json:"bucket" jsonschema:"its bucket"`
	ObjectKey string    `json:"object_key" jsonschema:"its name"`
	Bytes     int64     `json:"bytes" jsonschema:"its size"`
	Expires   time.Time `json:"expires" jsonschema:"when the link stops working"`
}

const defaultExpiry = time.Hour

func (s *storage) share() builtin.Tool {
	tool := definition("share", "Share a file by a link",
		"Share a file: upload it to MinIO or S3 storage and get a temporary presigned download link (URL) to send to somebody. Also makes a link to an object that is already in the bucket.",
		builtin.Hints(false, true, true), map[string]any{"path": "report.pdf"}, map[string]any{"object_key": "reports/2026.pdf", "expires": 600})
	tool.Guarantee = toolroom.GuaranteeSafe
	return builtin.MustTool(builtin.Spec[ShareArgs, Shared]{
		Tool: tool,
		Arguments: map[string]builtin.Property{
			"path": {"minLength": 1}, "handle": {"minLength": 1, "maxLength": 200}, "object_key": {"minLength": 1, "maxLength": maxKey}, "bucket": bucketProperty,
			"expires": {"minimum": 1, "maximum": 604800, "default": int(defaultExpiry / time.Second)},
		},
		Predict: func(_ *source.Request, in ShareArgs) []toolroom.Effect {
			if in.Path == "" && in.Handle == "" {
				return []toolroom.Effect{s.hostEffect("head", in.Bucket, in.ObjectKey), {Kind: toolroom.EffectSend}}
			}
			effects := []toolroom.Effect{s.hostEffect("put", in.Bucket, in.ObjectKey), {Kind: toolroom.EffectSend}}
			if in.Path != "" {
				effects = append(effects, toolroom.Effect{Kind: toolroom.EffectFile, Mode: "read", Target: in.Path})
			}
			if in.ObjectKey != "" {
				effects = append(effects, toolroom.Effect{Kind: toolroom.EffectDestroy}) // what has this name
			}
			return effects
		},
		Preview: func(_ context.Context, _ *source.Request, in ShareArgs) (source.Preview, error) {
			what := in.ObjectKey
			for _, given := range []string{in.Handle, in.Path} {
				if given != "" {
					what = given
				}
			}
			return source.Preview{Effects: []string{fmt.Sprintf("makes %s readable for anyone with the link, for %s", what, s.expiry(in))}}, nil
		},
		Run: func(ctx context.Context, req *source.Request, in ShareArgs) (Shared, []toolroom.Content, error) {
			out, err := s.runShare(ctx, req, in)
			if err != nil {
				return Shared{}, nil, transferError(ctx, err)
			}
			return out, builtin.Text(fmt.Sprintf("%s\nAnyone with this link can download %s (%d bytes) until %s.", out.URL, out.ObjectKey, out.Bytes, out.Expires.Format(time.RFC3339))), nil
		},
	})
}

func (s *storage) expiry(in ShareArgs) time.Duration {
	if in.Expires == 0 {
		return min(defaultExpiry, s.MaxExpiry)
	}
	return min(time.Duration(in.Expires)*time.Second, s.MaxExpiry)
}

func (s *storage) runShare(ctx context.Context, req *source.Request, in ShareArgs) (Shared, error) {
	bucket, err := s.bucket(in.Bucket)
	if err != nil {
		return Shared{}, err
	}
	out := Shared{Bucket: bucket, ObjectKey: in.ObjectKey}
	switch {
	case in.Path != "" && in.Handle != "":
		return out, toolroom.Errorf(toolroom.CodeInvalidArguments, "path and handle cannot be combined")
	case in.Path == "" && in.Handle == "" && in.ObjectKey == "":
		return out, toolroom.Errorf(toolroom.CodeInvalidArguments, "nothing is named to share").WithHint("pass path, handle or object_key")
	case in.Path == "" && in.Handle == "":
		response, err := s.Client.do(ctx, request{method: http.MethodHead, bucket: bucket, key: in.ObjectKey})
		if err != nil {
			return out, err
		}
		out.Bytes = response.ContentLength
		if err := response.Body.Close(); err != nil {
			return out, err
		}
	default:
		if err := s.upload(ctx, req, in, &out); err != nil {
			return out, err
		}
	}
	keys, err := s.Client.Keys(ctx)
	if err != nil {
		return out, err
	}
	now := time.Now()
	out.Expires = now.Add(s.expiry(in)).UTC().Truncate(time.Second)
	out.URL = keys.presign(s.Client.address(bucket, out.ObjectKey, nil), s.Client.Region, s.expiry(in), now)
	return out, nil
}

// upload uploads the file of a call to the bucket.
func (s *storage) upload(ctx context.Context, req *source.Request, in ShareArgs, out *Shared) error {
	file, info, name, kind, err := s.openInput(ctx, req, in)
	if err != nil {
		return err
	}
	defer file.Close()
	out.Bytes = info.Size()
	if out.ObjectKey == "" {
		// The same name for the same file, so that a broken upload can go on.
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s%s\n%d\n%d", identity.Owner(req.Identity), in.Path, in.Handle, info.Size(), info.ModTime().UnixNano()))
		out.ObjectKey = "shared/" + hex.EncodeToString(sum[:8]) + "/" + name
	}
	u := &upload{Client: s.Client, bucket: out.Bucket, key: out.ObjectKey, kind: kind, from: file, size: info.Size()}
	u.sent = func(bytes int64) {
		req.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: float64(bytes), Total: float64(info.Size()), Message: "uploading"}})
	}
	return u.run(ctx)
}

// openInput opens the file or artifact that a call names.
func (s *storage) openInput(ctx context.Context, req *source.Request, in ShareArgs) (file *os.File, info fs.FileInfo, name, kind string, err error) {
	if in.Handle != "" {
		var a toolroom.Artifact
		if file, a, err = s.Artifact(ctx, req.Identity, in.Handle); err != nil {
			return nil, nil, "", "", err
		}
		name, kind = a.Name, a.MIMEType
	} else {
		if s.Folders == nil {
			return nil, nil, "", "", toolroom.Errorf(toolroom.CodeUnsupported, "no folder is configured, so that no file can be shared").
				WithHint("name the folders in toolroom.yaml: builtin: {file: {roots: [/srv/project]}}")
		}
		opened, err := s.Folders.Open(in.Path)
		if err != nil {
			return nil, nil, "", "", err
		}
		file, name = opened.File, filepath.Base(in.Path)
	}
	if info, err = file.Stat(); err != nil {
		return nil, nil, "", "", err
	}
	if name = path.Base(filepath.ToSlash(name)); name == "." || name == "/" {
		name = "file"
	}
	return file, info, name, kindOf(file, name, kind), nil
}

// kindOf returns the media type of a file.
func kindOf(file *os.File, name, kind string) string {
	if kind != "" {
		return kind
	}
	if kind = mime.TypeByExtension(strings.ToLower(filepath.Ext(name))); kind != "" {
		return kind
	}
	head := make([]byte, 512)
	n, _ := file.ReadAt(head, 0) // a short file
	return http.DetectContentType(head[:n])
}
