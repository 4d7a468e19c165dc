package embed

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// An Indexer keeps the vectors of a set of texts up to date in the background, and in a
// file.
type Indexer struct {
	Service *Service
	File    File
	// Texts returns the current texts by name.
	Texts func() map[string]string
	// Set receives vectors as they become known.
	Set func(vectors map[string][]float32)
	// Progress, if not nil, is called as texts are embedded.
	Progress func(Progress)

	mu       sync.Mutex
	progress Progress
}

// Progress says how far an indexer is.
type Progress struct {
	Texts    int `json:"texts"`
	Embedded int `json:"embedded"`
	// Err is why the indexer stopped before the end, and tries again later.
	Err error `json:"-"`
}

const (
	batch     = 8                // texts of one request
	saveEvery = 15 * time.Second // so that little is lost in a crash
	retry     = 30 * time.Second
)

// State returns how far the indexer is.
func (x *Indexer) State() Progress {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.progress
}

// Run indexes now and after each wake-up, until ctx ends. After a failure it tries again
// in half a minute.
func (x *Indexer) Run(ctx context.Context, wake <-chan struct{}) {
	for {
		var again <-chan time.Time
		if err := x.Index(ctx); err != nil {
			again = time.After(retry)
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-again:
		}
	}
}

// Index brings the vectors up to date once.
func (x *Indexer) Index(ctx context.Context) error {
	err := x.index(ctx)
	x.report(func(p *Progress) { p.Err = err })
	return err
}

// Recall sets the vectors that the file has, and embeds nothing.
func (x *Indexer) Recall(ctx context.Context) error {
	texts := x.Texts()
	x.report(func(p *Progress) { *p = Progress{Texts: len(texts)} })
	model, err := x.Service.Name(ctx)
	if err != nil {
		return err
	}
	known, err := x.File.Load(model)
	x.setKnown(known, digests(texts))
	return err
}

func digests(texts map[string]string) map[Digest][]string {
	names := map[Digest][]string{}
	for name, text := range texts {
		names[DigestOf(text)] = append(names[DigestOf(text)], name)
	}
	return names
}

func (x *Indexer) index(ctx context.Context) error {
	texts := x.Texts()
	x.report(func(p *Progress) { *p = Progress{Texts: len(texts), Embedded: min(p.Embedded, len(texts))} })
	model, err := x.Service.Name(ctx)
	if err != nil {
		return err
	}
	known, err := x.File.Load(model)
	if err != nil {
		known = map[Digest][]float32{} // computed again
	}
	names := digests(texts)
	missing := x.setKnown(known, names)
	changed := len(missing) > 0
	for digest := range known {
		if names[digest] == nil {
			delete(known, digest) // the text is gone
			changed = true
		}
	}
	saved := time.Now()
	for part := range slices.Chunk(missing, batch) {
		list := make([]string, len(part))
		for i, digest := range part {
			list[i] = texts[names[digest][0]]
		}
		vectors, err := x.Service.Embed(ctx, list)
		if err != nil {
			_ = x.File.Save(context.WithoutCancel(ctx), model, known)
			return err
		}
		fresh := map[Digest][]float32{}
		for i, digest := range part {
			fresh[digest] = vectors[i]
		}
		maps.Copy(known, fresh)
		x.set(fresh, names)
		if time.Since(saved) > saveEvery {
			if err := x.File.Save(ctx, model, known); err != nil {
				return err
			}
			saved = time.Now()
		}
	}
	if !changed {
		return nil
	}
	return x.File.Save(ctx, model, known)
}

// setKnown sets the vectors that are known, and returns the digests of the others, in the order
// of names.
func (x *Indexer) setKnown(known map[Digest][]float32, names map[Digest][]string) (missing []Digest) {
	found := map[Digest][]float32{}
	for digest := range names {
		slices.Sort(names[digest])
		if v, ok := known[digest]; ok {
			found[digest] = v
		} else {
			missing = append(missing, digest)
		}
	}
	slices.SortFunc(missing, func(a, b Digest) int { return slices.Compare(names[a], names[b]) })
	x.report(func(p *Progress) { p.Embedded = 0 })
	x.set(found, names)
	return missing
}

func (x *Indexer) set(vectors map[Digest][]float32, names map[Digest][]string) {
	byName := map[string][]float32{}
	for digest, v := range vectors {
		for _, name := range names[digest] {
			byName[name] = v
		}
	}
	x.Set(byName)
	x.report(func(p *Progress) { p.Embedded += len(byName) })
}

func (x *Indexer) report(change func(*Progress)) {
	x.mu.Lock()
	change(&x.progress)
	p := x.progress
	x.mu.Unlock()
	if x.Progress != nil {
		x.Progress(p)
	}
}
