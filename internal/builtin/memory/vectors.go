package memory

import (
	"cmp"
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/toolroom/toolroom/internal/embed"
)

// embedding computes the vectors of all owners' paragraphs in the background. It removes the
// vectors of removed text from memory and from the disk.
type embedding struct {
	// service returns the embedder in use, nil if there is none.
	service func() *embed.Service
	// ctx ends the background work.
	ctx     context.Context
	running sync.WaitGroup
}

// vectorState holds the vectors of an owner's paragraphs.
type vectorState struct {
	service *embed.Service // the embedder of the vectors; those of another cannot be compared
	table   *vectorTable   // nil until it has been read
	running bool           // missing vectors are being computed
	// stale is true if texts have been removed since the table was swept.
	stale bool
}

const (
	embedBatch = 8 // texts of one request
	// maxExact is the maximum number of paragraphs that are all compared with a query. If there
	// are more, only those with the nearest sketches are.
	maxExact    = 20_000
	maxNearest  = 4000
	maxByWords  = 200
	vectorsFile = ".vectors"
)

// update assigns the known vectors to the paragraphs of an index, and starts to compute the
// missing ones. The caller holds the lock of l.
func (v *embedding) update(service *embed.Service, s store, owner string, l *ownerIndex) {
	if l.vectors.service != service {
		l.vectors = vectorState{service: service, stale: true}
	}
	missing := l.assignSlots()
	if (missing > 0 || l.vectors.stale) && !l.vectors.running && v.ctx.Err() == nil {
		m := &l.vectors
		m.running = true
		v.running.Go(func() {
			err := v.compute(service, l, filepath.Join(s.folder(owner), vectorsFile))
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.vectors.service == service {
				l.vectors.running = false
				l.vectors.stale = l.vectors.stale || err != nil // the next search tries again
			}
		})
	}
}

// hasAllVectors reports whether all vectors are known and assigned, so that [embedding.update]
// has nothing to do.
func (l *ownerIndex) hasAllVectors(service *embed.Service) bool {
	return l.vectors.service == service && !l.vectors.stale && l.slotsCurrent() && l.missingVectors() == 0
}

// hasMostVectors reports whether nearly all of count paragraphs have vectors.
func (l *ownerIndex) hasMostVectors(service *embed.Service, count int) bool {
	return l.vectors.service == service && l.vectors.table != nil && 10*l.missingVectors() <= count
}

// missingVectors returns the number of paragraphs without a vector.
func (l *ownerIndex) missingVectors() (n int) {
	for _, f := range l.files {
		if f.table != l.vectors.table || f.table == nil {
			n += len(f.paragraphs)
		} else {
			n += f.missing
		}
	}
	return n
}

// slotsCurrent reports whether the slots of all paragraphs are valid in the present table.
func (l *ownerIndex) slotsCurrent() bool {
	t := l.vectors.table
	if t == nil {
		return true
	}
	for _, f := range l.files {
		if f.table != t || f.epoch != t.epoch {
			return false
		}
	}
	return true
}

// rlockSlots locks the index for reading, after it has made all slots current.
func (l *ownerIndex) rlockSlots() {
	l.mu.RLock()
	for !l.slotsCurrent() {
		l.mu.RUnlock()
		l.mu.Lock()
		l.assignSlots()
		l.mu.Unlock()
		l.mu.RLock()
	}
}

// assignSlots sets the slot of each paragraph, and returns how many paragraphs have no vector.
func (l *ownerIndex) assignSlots() (missing int) {
	t := l.vectors.table
	for _, f := range l.files {
		if t != nil && (f.table != t || f.epoch != t.epoch) {
			f.table, f.epoch, f.missing, f.slots = t, t.epoch, len(f.paragraphs), slices.Repeat([]uint32{noSlot}, len(f.paragraphs))
		}
		if t == nil {
			missing += len(f.paragraphs)
			continue
		}
		for i := 0; i < len(f.slots) && f.missing > 0; i++ {
			if f.slots[i] != noSlot {
				continue
			}
			if slot, ok := t.slots[f.paragraphs[i].digest]; ok {
				f.slots[i] = slot
				f.missing--
			}
		}
		missing += f.missing
	}
	return missing
}

// compute computes the missing vectors of an index and removes those of removed texts.
func (v *embedding) compute(service *embed.Service, l *ownerIndex, file string) error {
	model, err := service.Name(v.ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	t := l.vectors.table
	l.mu.Unlock()
	if t == nil {
		if t, err = openTable(v.ctx, file, model); err != nil {
			return err
		}
	}
	missing, err := l.setTable(v.ctx, service, t)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(missing, embedBatch) {
		texts, digests := make([]string, len(part)), make([]embed.Digest, len(part))
		for i, p := range part {
			texts[i], digests[i] = p.embeddedText(), p.digest
		}
		found, err := service.Embed(v.ctx, texts)
		if err != nil {
			return err
		}
		l.mu.Lock()
		err = t.add(v.ctx, digests, found)
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// setTable makes t the table of the index and removes the vectors of removed texts from it. It
// returns the paragraphs that have no vector yet.
func (l *ownerIndex) setTable(ctx context.Context, service *embed.Service, t *vectorTable) (missing []*paragraph, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.vectors.service != service {
		return nil, nil // another embedder is in use by now
	}
	l.vectors.table = t
	l.assignSlots()
	used, asked := make([]bool, len(t.norms)), map[embed.Digest]bool{}
	for _, f := range l.files {
		for i, slot := range f.slots {
			p := &f.paragraphs[i]
			switch {
			case slot != noSlot:
				used[slot] = true
			case !asked[p.digest]:
				asked[p.digest] = true
				missing = append(missing, p)
			}
		}
	}
	if l.vectors.stale {
		if err := t.sweep(ctx, used); err != nil {
			return nil, err
		}
		l.vectors.stale = false
	}
	return missing, nil
}

// embeddedText returns the text from which the vector is computed.
func (p *paragraph) embeddedText() string {
	if p.heading == "" || p.heading == p.text {
		return p.text
	}
	return p.heading + "\n" + p.text
}

// byMeaning returns the paragraphs with the best scores by words and those nearest to the query
// in meaning, or all paragraphs if there are not too many.
func (l *ownerIndex) byMeaning(namespace string, scores map[string][]float64, query []float32, count int) []hit {
	if count <= maxExact {
		return l.all(namespace, scores)
	}
	hits := l.best(namespace, scores, maxByWords)
	have := make(map[*paragraph]bool, len(hits))
	for _, h := range hits {
		have[h.paragraph] = true
	}
	for _, h := range l.nearest(namespace, query) {
		if !have[h.paragraph] {
			if s := scores[h.namespace]; s != nil {
				h.score = s[h.at]
			}
			hits = append(hits, h)
		}
	}
	return hits
}

// nearest returns about [maxNearest] paragraphs, those whose sketches are most similar to the
// query's.
func (l *ownerIndex) nearest(namespace string, query []float32) []hit {
	t := l.vectors.table
	sketch := t.sketch(query)
	type part struct {
		names     []string
		distances [][]uint16
		found     []int // number of paragraphs with a distance
	}
	parts := make([]part, max(1, runtime.GOMAXPROCS(0)))
	next := 0
	for name := range l.files {
		if inside(name, namespace) {
			p := &parts[next%len(parts)]
			p.names = append(p.names, name)
			next++
		}
	}
	var scans sync.WaitGroup
	for i := range parts {
		p := &parts[i]
		scans.Go(func() {
			p.found = make([]int, t.dims+1)
			for _, name := range p.names {
				slots := l.files[name].slots
				distances := make([]uint16, len(slots))
				for i, slot := range slots {
					if slot == noSlot {
						distances[i] = maxDims - 1
						continue
					}
					d := t.distance(slot, sketch)
					distances[i] = uint16(d)
					p.found[d]++
				}
				p.distances = append(p.distances, distances)
			}
		})
	}
	scans.Wait()
	limit := 0
	for total := 0; limit < t.dims; limit++ {
		for _, p := range parts {
			total += p.found[limit]
		}
		if total >= maxNearest {
			break
		}
	}
	var hits []hit
	for _, p := range parts {
		for i, name := range p.names {
			f := l.files[name]
			for at, d := range p.distances[i] {
				if int(d) <= limit && len(hits) < 2*maxNearest { // with few dimensions, many are as near
					hits = append(hits, f.hit(name, at, 0))
				}
			}
		}
	}
	return hits
}

// minCosine is the minimum similarity of a paragraph that has no word of the query. Unrelated
// sentences have about 0.1.
const minCosine = 0.3

// vectorWeight is the weight of meaning; that of words is 1.
const vectorWeight = 0.8

// addMeaning combines the scores of hits by words with their similarity in meaning, both scaled
// to 0..1. For a paragraph without a vector, the score by words stands for both.
func addMeaning(hits []hit, t *vectorTable, query []float32) {
	best := 0.0
	low, high := float32(2), float32(-2)
	cosines := make([]float32, len(hits))
	for i, h := range hits {
		best = max(best, h.score)
		if h.slot != noSlot {
			cosines[i] = t.cosine(h.slot, query)
			low, high = min(low, cosines[i]), max(high, cosines[i])
		}
	}
	best = cmp.Or(best, 1)
	span := max(high-low, 1e-6)
	for i := range hits {
		h := &hits[i]
		byWords := h.score / best
		near := cosines[i] >= minCosine
		switch {
		case h.slot == noSlot:
			h.score = byWords
		case byWords > 0 || near:
			h.score = (byWords + vectorWeight*float64((cosines[i]-low)/span)) / (1 + vectorWeight)
		}
		switch {
		case byWords > 0 && near:
			h.source = "keyword+vector"
		case near:
			h.source = "vector"
		}
	}
}
