package memory

import (
	"context"
	"path/filepath"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolroom/toolroom/internal/embed"
)

// vectors keeps those of the paragraphs of each owner, in memory and beside the notes. What
// has been forgotten is removed from both.
type vectors struct {
	// service returns the embedder in use, nil if there is none.
	service func() *embed.Service
	// ctx ends what runs in the background.
	ctx     context.Context
	running sync.WaitGroup
	mu      sync.Mutex
	owners  *lru.Cache[string, *owned]
}

// owned are the vectors of one owner, all of one embedder.
type owned struct {
	service *embed.Service
	model   string
	known   map[embed.Digest][]float32
	running bool // missing ones are being computed
}

// of returns the vectors of an owner's paragraphs, nil for those that are not known yet,
// and starts to compute these with the service. Vectors of another service are given up:
// they cannot be compared with its own.
func (v *vectors) of(service *embed.Service, s store, owner string, paragraphs []hit) [][]float32 {
	list := make([][]float32, len(paragraphs))
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.owners == nil {
		v.owners, _ = lru.New[string, *owned](maxOwners) // an error is for a size below 1
	}
	o, ok := v.owners.Get(owner)
	if !ok || o.service != service {
		o = &owned{service: service, known: map[embed.Digest][]float32{}}
		v.owners.Add(owner, o)
	}
	texts := map[embed.Digest]string{}
	missing := o.model == ""
	for i, p := range paragraphs {
		texts[p.digest] = p.embedded()
		list[i] = o.known[p.digest]
		missing = missing || list[i] == nil
	}
	if (missing || len(o.known) > len(texts)) && !o.running && v.ctx.Err() == nil {
		o.running = true
		v.running.Go(func() {
			v.compute(service, o, embed.File{Path: filepath.Join(s.folder(owner), ".vectors")}, texts)
		})
	}
	return list
}

// compute brings the vectors of an owner up to date. What fails is tried again by the next
// search.
func (v *vectors) compute(service *embed.Service, o *owned, file embed.File, texts map[embed.Digest]string) {
	defer func() {
		v.mu.Lock()
		o.running = false
		v.mu.Unlock()
	}()
	byDigest := make(map[string]string, len(texts))
	for digest, text := range texts {
		byDigest[string(digest[:])] = text
	}
	model, err := service.Name(v.ctx)
	if err != nil {
		return
	}
	v.mu.Lock()
	o.model, o.known = model, map[embed.Digest][]float32{}
	v.mu.Unlock()
	x := &embed.Indexer{
		Service: service, File: file, Texts: func() map[string]string { return byDigest },
		Set: func(found map[string][]float32) {
			v.mu.Lock()
			defer v.mu.Unlock()
			for digest, vector := range found {
				o.known[embed.Digest([]byte(digest))] = vector
			}
		},
	}
	_ = x.Index(v.ctx)
}

// embedded is the text of which the vector is computed.
func (p *paragraph) embedded() string {
	if p.heading == "" || p.heading == p.text {
		return p.text
	}
	return p.heading + "\n" + p.text
}

// minCosine is the similarity from which a paragraph without any word of the query is
// found. Unrelated sentences have about 0.1.
const minCosine = 0.3

// vectorWeight is how much meaning counts beside words, which count 1.
const vectorWeight = 0.8

// blend adds to the scores of hits by words how near they are in meaning, both scaled to
// 0..1. A paragraph without a vector is taken to mean as much as it says. It returns false,
// and changes nothing, if less than nine in ten have a vector.
func blend(hits []hit, vectors [][]float32, query []float32) bool {
	have, best := 0, 0.0
	low, high := float32(2), float32(-2)
	cosines := make([]float32, len(hits))
	for i, v := range vectors {
		best = max(best, hits[i].score)
		if len(v) == len(query) && v != nil {
			have++
			cosines[i] = embed.Cosine(v, query)
			low, high = min(low, cosines[i]), max(high, cosines[i])
		}
	}
	if have == 0 || 10*have < 9*len(hits) {
		return false
	}
	if best == 0 {
		best = 1
	}
	span := max(high-low, 1e-6)
	for i := range hits {
		h := &hits[i]
		byWords := h.score / best
		near := cosines[i] >= minCosine
		switch {
		case len(vectors[i]) != len(query):
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
	return true
}
