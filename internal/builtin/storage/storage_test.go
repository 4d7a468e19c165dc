package storage

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/builtin/memory"
	"github.com/toolroom/toolroom/source"
)

// The examples of the documentation of Amazon S3: "Signature Calculations for the
// Authorization Header" and "Authenticating Requests: Using Query Parameters".
func TestSignaturesAreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	keys := Keys{Access: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	now := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	endpoint, err := url.Parse("https://s3.amazonaws.com")
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{Endpoint: endpoint, VirtualHosts: true}
	for name, tt := range map[string]struct {
		method, key, hash string
		query             url.Values
		header            http.Header
		want              string
	}{
		"get": {http.MethodGet, "test.txt", emptyHash, nil, http.Header{"Range": {"bytes=0-9"}}, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		"put": {
			http.MethodPut, "test$file.text", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072", nil,
			http.Header{"Date": {"Fri, 24 May 2013 00:00:00 GMT"}, "X-Amz-Storage-Class": {"REDUCED_REDUNDANCY"}},
			"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
		},
		"lifecycle": {http.MethodGet, "", emptyHash, url.Values{"lifecycle": {""}}, nil, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		"list":      {http.MethodGet, "", emptyHash, url.Values{"max-keys": {"2"}, "prefix": {"J"}}, nil, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	} {
		r := &http.Request{Method: tt.method, URL: c.address("examplebucket", tt.key, tt.query), Header: http.Header{}}
		for name, values := range tt.header {
			r.Header[name] = values
		}
		keys.sign(r, "us-east-1", tt.hash, now)
		if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature="+tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	link := keys.presign(c.address("examplebucket", "test.txt", nil), "us-east-1", 24*time.Hour, now)
	if !strings.HasSuffix(link, "X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404") {
		t.Error(link)
	}
}

// server is a bucket in memory that breaks connections on request.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string][]byte
	uploads map[string]map[int][]byte // by key
	puts    int
	// fail is asked before each request; true breaks the connection.
	fail func(r *http.Request) bool
	// answer answers a request if it returns true.
	answer func(w http.ResponseWriter, r *http.Request) bool
	// loseCompletions is how many answers to completed uploads are lost; refuseCompletion
	// completes none.
	loseCompletions  int
	refuseCompletion bool
	parts            map[string]int // of completed uploads
	// cut is how many bytes of an object are sent before the connection breaks, while there
	// are entries.
	cut []int
}

func newServer(t *testing.T) *server {
	s := &server{objects: map[string][]byte{}, uploads: map[string]map[int][]byte{}, parts: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func tag(data []byte) string {
	sum := md5.Sum(data)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.fail != nil && s.fail(r) {
		panic(http.ErrAbortHandler)
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no.</Message></Error>", code)
	}
	if s.answer != nil && s.answer(w, r) {
		return
	}
	switch {
	case bucket != "docs":
		refuse(http.StatusNotFound, "NoSuchBucket")
	case r.Method == http.MethodPut && query.Has("partNumber"):
		n, _ := strconv.Atoi(query.Get("partNumber"))
		s.uploads[key][n] = data
		s.puts++
		w.Header().Set("ETag", tag(data))
	case r.Method == http.MethodPut:
		s.objects[key] = data
	case r.Method == http.MethodPost && query.Has("uploads"):
		s.uploads[key] = map[int][]byte{}
		fmt.Fprint(w, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
	case r.Method == http.MethodPost && (s.uploads[key] == nil || s.refuseCompletion):
		refuse(http.StatusNotFound, "NoSuchUpload")
	case r.Method == http.MethodPost:
		var all completion
		_ = xml.Unmarshal(data, &all)
		var whole []byte
		for _, p := range all.Parts {
			if p.ETag != tag(s.uploads[key][p.Number]) {
				fmt.Fprint(w, "<Error><Code>InvalidPart</Code></Error>")
				return
			}
			whole = append(whole, s.uploads[key][p.Number]...)
		}
		s.objects[key], s.parts[key] = whole, len(all.Parts)
		delete(s.uploads, key)
		if s.loseCompletions > 0 {
			s.loseCompletions--
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, "<CompleteMultipartUploadResult/>")
	case query.Has("uploads"):
		fmt.Fprint(w, "<ListMultipartUploadsResult>")
		for key := range s.uploads {
			fmt.Fprintf(w, "<Upload><Key>%s</Key><UploadId>1</UploadId></Upload>", key)
		}
		fmt.Fprint(w, "</ListMultipartUploadsResult>")
	case query.Has("uploadId"):
		fmt.Fprint(w, "<ListPartsResult>")
		for n, part := range s.uploads[key] {
			fmt.Fprintf(w, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag><Size>%d</Size></Part>", n, tag(part), len(part))
		}
		fmt.Fprint(w, "</ListPartsResult>")
	case query.Has("list-type"):
		s.list(w, query)
	default:
		s.get(w, r, key, refuse)
	}
}

func (s *server) list(w io.Writer, query url.Values) {
	var keys []string
	for key := range s.objects {
		if strings.HasPrefix(key, query.Get("prefix")) && key > query.Get("continuation-token") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	fmt.Fprint(w, "<ListBucketResult><EncodingType>url</EncodingType>")
	for i, key := range keys {
		if i == 3 { // a small page
			fmt.Fprintf(w, "<IsTruncated>true</IsTruncated><NextContinuationToken>%s</NextContinuationToken>", keys[i-1])
			break
		}
		fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size><ETag>%s</ETag></Contents>", url.QueryEscape(key), len(s.objects[key]), strings.ReplaceAll(tag(s.objects[key]), `"`, "&quot;"))
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

func (s *server) get(w http.ResponseWriter, r *http.Request, key string, refuse func(int, string)) {
	data, ok := s.objects[key]
	if !ok {
		refuse(http.StatusNotFound, "NoSuchKey")
		return
	}
	if match := r.Header.Get("If-Match"); match != "" && match != tag(data) {
		refuse(http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	w.Header().Set("ETag", tag(data))
	if s.parts[key] > 0 {
		var all completion
		for part := range slices.Chunk(data, minPart) {
			all.Parts = append(all.Parts, completedPart{ETag: tag(part)})
		}
		w.Header().Set("ETag", `"`+all.etag()+`"`)
	}
	if len(s.cut) == 0 || r.Method == http.MethodHead {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		return
	}
	at := 0
	if from, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		at, _ = strconv.Atoi(strings.TrimSuffix(from, "-"))
		w.WriteHeader(http.StatusPartialContent)
	} else {
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	}
	n := s.cut[0]
	s.cut = s.cut[1:]
	_, _ = w.Write(data[at:min(at+n, len(data))])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// pack returns the tools, for a folder of files.
func (s *server) pack(t *testing.T, dir string) *builtin.Pack {
	t.Helper()
	return Pack(s.options(t, dir).Options)
}

type testOptions struct {
	Options
	notes *memory.Notes
}

func (s *server) options(t *testing.T, dir string) *testOptions {
	t.Helper()
	endpoint, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	folders, err := folder.Open([]string{dir}, folder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	notes := memory.Open(filepath.Join(t.TempDir(), "memory"))
	return &testOptions{notes: notes, Options: Options{
		Client: &Client{
			Endpoint: endpoint, Region: "us-east-1", Transport: http.DefaultTransport, Wait: time.Millisecond,
			Keys: func(context.Context) (Keys, error) { return Keys{Access: "a", Secret: "s"}, nil },
		},
		Bucket: "docs", Folders: folders, Save: notes.Save, Has: notes.Has, State: filepath.Join(t.TempDir(), "state"),
	}}
}

func call(t *testing.T, p *builtin.Pack, tool string, args map[string]any) (string, error) {
	t.Helper()
	out, err := p.Source().Call(t.Context(), &source.Request{
		Call: "c", Tool: toolroom.MustParseID(tool), Arguments: builtin.Arguments(args), Emit: func(toolroom.Event) {},
	})
	if err != nil {
		return "", err
	}
	return string(out.Value), nil
}

func TestABrokenUploadGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), newServer(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 3<<16) // three parts of 8 MiB would be too small: 3 MiB
	data = bytes.Repeat(data, 9)                            // 27 MiB, four parts
	if err := os.WriteFile(filepath.Join(dir, "big.bin"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	s.fail = func(r *http.Request) bool { return r.URL.Query().Get("partNumber") == "3" }
	p := s.pack(t, dir)
	if _, err := call(t, p, "minio:share", map[string]any{"path": "big.bin"}); toolroom.CodeOf(err) != toolroom.CodeUpstreamUnavailable {
		t.Fatalf("got %v", err)
	}
	s.fail = nil
	before := s.puts
	value, err := call(t, p, "minio:share", map[string]any{"path": "big.bin"})
	if err != nil || before != 2 || s.puts != 4 {
		t.Errorf("%v; %d parts, then %d in all", err, before, s.puts)
	}
	if len(s.objects) != 1 {
		t.Fatalf("%d objects, %s", len(s.objects), value)
	}
	for key, got := range s.objects {
		if !bytes.Equal(got, data) || !strings.HasSuffix(key, "/big.bin") {
			t.Errorf("%s has %d bytes, want %d", key, len(got), len(data))
		}
	}
}

func TestABrokenDownloadGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	data := []byte(strings.Repeat("a line of text\n", 20_000))
	s.objects["notes.txt"] = data
	s.cut = []int{1, 100_000, 0, 50_000}
	p := s.pack(t, t.TempDir())
	value, err := call(t, p, "minio:ingest", map[string]any{"object_key": "notes.txt", "max_chars": 1_000_000})
	if err != nil || !strings.Contains(value, fmt.Sprintf(`"chars":%d`, len(data))) {
		t.Errorf("%s, %v", value, err)
	}
	s.cut = []int{10, 10, 10, 10, 10, 10, 10, 10}
	if _, err := call(t, p, "minio:ingest", map[string]any{"object_key": "notes.txt"}); toolroom.CodeOf(err) != toolroom.CodeUpstreamUnavailable {
		t.Errorf("got %v", err)
	}
}

func TestSyncReadsWhatIsNewOrChanged(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for i := range 7 {
		s.objects[fmt.Sprintf("a b/%d.txt", i)] = fmt.Appendf(nil, "text %d", i)
	}
	s.objects["a b/picture.png"] = []byte("\x89PNG\x00")
	s.objects["a b/x.csv"] = []byte("name,town\nAnn,Ulm\nBob,\n")
	p := s.pack(t, t.TempDir())
	sync := func(args map[string]any) string {
		args["prefix"] = "a b/"
		value, err := call(t, p, "minio:sync", args)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	counts := func(value string) string {
		return fmt.Sprint(strings.Count(value, `"namespace"`), strings.Count(value, `"reason"`), strings.Contains(value, `"more":true`))
	}
	for i, want := range []string{"4 0 true", "4 1 false", "0 1 false"} {
		if got := sync(map[string]any{"max_objects": []int{4, 50, 50}[i]}); counts(got) != want {
			t.Errorf("sync %d: %s", i, got)
		}
	}
	s.objects["a b/3.txt"] = []byte("changed")
	if got := sync(map[string]any{}); counts(got) != "1 1 false" || !strings.Contains(got, "global/knowledge/a-b/3.txt") {
		t.Error(got)
	}
	if got := sync(map[string]any{"force": true}); counts(got) != "1 0 false" || !strings.Contains(got, "picture.png") {
		t.Error(got)
	}
}

// What failed for a passing reason is read by the next call; what cannot be read is not.
func TestSyncGivesUpOnlyWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.objects["a.txt"], s.objects["b.png"] = []byte("text"), []byte("\x89PNG\x00")
	gets := 0
	refuse := http.StatusForbidden
	s.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || r.URL.Query().Has("list-type") {
			return false
		}
		gets++
		if refuse == 0 || !strings.HasSuffix(r.URL.Path, "a.txt") {
			return false
		}
		w.WriteHeader(refuse)
		return true
	}
	p := s.pack(t, t.TempDir())
	for _, refuse = range []int{http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest} {
		value, err := call(t, p, "minio:sync", map[string]any{"prefix": ""})
		if err != nil || strings.Count(value, `"reason"`) != 2 {
			t.Errorf("%d: %s, %v", refuse, value, err)
		}
	}
	refuse = 0
	if value, err := call(t, p, "minio:sync", map[string]any{"prefix": ""}); err != nil || strings.Count(value, `"reason"`) != 1 || !strings.Contains(value, `"chars":4`) || gets != 5 {
		t.Errorf("%d requests for objects: %s, %v", gets, value, err)
	}
}

// A call that was killed after it had written to memory, and before it had noted that, does
// not write again.
func TestSyncAppendsAnObjectOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.objects["a.txt"] = []byte("text")
	o := s.options(t, t.TempDir())
	var saved string
	o.Save = func(ctx context.Context, who toolroom.Identity, namespace, text string, add bool) error {
		err := o.notes.Save(ctx, who, namespace, text, add)
		saved = namespace
		return err
	}
	for range 2 {
		if _, err := call(t, Pack(o.Options), "minio:sync", map[string]any{"prefix": "", "mode": "append"}); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(o.State); err != nil { // as if it had never been written
			t.Fatal(err)
		}
	}
	if text, err := o.notes.Read(toolroom.Identity{}, saved); err != nil || strings.Count(text, "text") != 1 {
		t.Errorf("%q, %v", text, err)
	}
}

// The answer to the last request of an upload is lost, and the server has no such upload
// any more.
func TestACompletedUploadWhoseAnswerIsLostSucceeds(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), newServer(t)
	data := bytes.Repeat([]byte("x"), minPart+1)
	if err := os.WriteFile(filepath.Join(dir, "big.bin"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	p := s.pack(t, dir)
	s.loseCompletions = 1
	if value, err := call(t, p, "minio:share", map[string]any{"path": "big.bin"}); err != nil || !strings.Contains(value, fmt.Sprint(len(data))) {
		t.Errorf("%s, %v", value, err)
	}
	s.loseCompletions = 100
	if _, err := call(t, p, "minio:share", map[string]any{"path": "big.bin", "object_key": "again"}); err != nil {
		t.Errorf("got %v", err)
	}
	s.refuseCompletion = true
	if _, err := call(t, p, "minio:share", map[string]any{"path": "big.bin", "object_key": "again"}); err != nil {
		t.Errorf("the same file is there already: %v", err)
	}
	if _, err := call(t, p, "minio:share", map[string]any{"path": "big.bin", "object_key": "never"}); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("an upload that was aborted: %v", err)
	}
}

func TestTextOfObjects(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		key, data string
		most      int
		want      string
		more      bool
	}{
		"text":         {"a.txt", "äöü", 2, "äö", true},
		"all of it":    {"a.txt", "äöü", 3, "äöü", false},
		"rows":         {"a.csv", "name,town\n\"Ann, B\",Ulm\nBob,\n", 1000, "name: Ann, B; town: Ulm\n\nname: Bob\n\n", false},
		"whole rows":   {"a.csv", "n\n1234567890\n2234567890\n", 20, "n: 1234567890\n\n", true},
		"tabs":         {"a.tsv", "a\tb\n1\t2\n", 1000, "a: 1; b: 2\n\n", false},
		"only columns": {"a.csv", "a,b\n", 1000, "a; b", false},
		"page":         {"a.html", "<script>x</script><h1>Title</h1><p>Text", 1000, "# Title\n\nText", false},
	} {
		got, more, err := readText(t.Context(), objectOf(tt.key, "", tt.data), tt.most, false)
		if got != tt.want || more != tt.more || err != nil {
			t.Errorf("%s: %q %v %v, want %q", name, got, more, err, tt.want)
		}
	}
	for name, tt := range map[string]struct{ key, kind, data string }{
		"zeros in a text": {"a.txt", "", "a\x00"}, "a picture": {"a.png", "image/png", "text"}, "a broken PDF": {"a.pdf", "", "%PDF-1.4 nothing"},
		"a broken DOCX": {"a.docx", "", "PK nothing"},
	} {
		if got, _, err := readText(t.Context(), objectOf(tt.key, tt.kind, tt.data), 100, false); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestADocumentOfUnknownSizeIsNeverReadInPart(t *testing.T) {
	t.Parallel()
	object := objectOf("a.html", "", "<p>"+strings.Repeat("x", maxDocument))
	object.Size = -1
	if got, _, err := readText(t.Context(), object, 100, false); toolroom.CodeOf(err) != toolroom.CodeResourceLimit {
		t.Errorf("%q, %v", got, err)
	}
}

func objectOf(key, kind, data string) *body {
	endpoint, _ := url.Parse("http://localhost")
	return &body{
		ctx: context.Background(), client: &Client{Endpoint: endpoint}, of: request{bucket: "b"}, object: object{Key: key, Size: int64(len(data))}, kind: kind,
		from: io.NopCloser(strings.NewReader(data)),
	}
}

func TestRefusedCallsSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := s.pack(t, t.TempDir())
	for _, tt := range []struct {
		tool string
		args map[string]any
		code toolroom.Code
	}{
		{"minio:share", map[string]any{}, toolroom.CodeInvalidArguments},
		{"minio:share", map[string]any{"path": "../../etc/passwd"}, toolroom.CodeDenied},
		{"minio:share", map[string]any{"path": "missing"}, toolroom.CodeNotFound},
		{"minio:share", map[string]any{"object_key": "missing"}, toolroom.CodeNotFound},
		{"minio:ingest", map[string]any{"object_key": "missing"}, toolroom.CodeNotFound},
		{"minio:ingest", map[string]any{"object_key": "a", "bucket": "other"}, toolroom.CodeDenied},
		{"minio:ingest", map[string]any{"object_key": "../other/a.txt"}, toolroom.CodeInvalidArguments},
		{"minio:ingest", map[string]any{"object_key": "a/../../other/a.txt"}, toolroom.CodeInvalidArguments},
		{"minio:ingest", map[string]any{"object_key": "a/./b"}, toolroom.CodeInvalidArguments},
		{"minio:share", map[string]any{"object_key": "a/.."}, toolroom.CodeInvalidArguments},
	} {
		if _, err := call(t, p, tt.tool, tt.args); toolroom.CodeOf(err) != tt.code {
			t.Errorf("%s %v: %v", tt.tool, tt.args, err)
		}
	}
	s.Close()
	_, err := call(t, p, "minio:ingest", map[string]any{"object_key": "a.txt"})
	var known *toolroom.Error
	if !errors.As(err, &known) || known.Code != toolroom.CodeUpstreamUnavailable || !known.Retryable {
		t.Errorf("got %v", err)
	}
	if missing := Pack(Options{}).Missing; missing == nil || !strings.Contains(missing.Hint, "builtin: {storage:") {
		t.Errorf("got %v", missing)
	}
}

// A file of any size is uploaded without holding it in memory.
func TestALargeUploadTakesLittleMemory(t *testing.T) {
	const size = 1 << 30
	counting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Has("uploads") && r.Method == http.MethodGet:
			fmt.Fprint(w, "<R/>")
		case r.Method == http.MethodPost:
			fmt.Fprint(w, "<R><UploadId>1</UploadId></R>")
		default:
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("ETag", `"x"`)
		}
	}))
	defer counting.Close()
	endpoint, err := url.Parse(counting.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{Endpoint: endpoint, Transport: http.DefaultTransport, Keys: func(context.Context) (Keys, error) { return Keys{}, nil }}
	var peak uint64
	u := &upload{Client: c, bucket: "docs", key: "big", from: zeros{}, size: size, sent: func(int64) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse)
	}}
	if err := u.run(t.Context()); err != nil || peak > 50<<20 {
		t.Errorf("%v; %d MiB in use", err, peak>>20)
	}
}

// zeros is a file without end.
type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}
