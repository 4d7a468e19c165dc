package search

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// An Index is a set of documents that can be searched while it changes. The
// zero value is empty and ready. All methods may be called concurrently: a
// search sees each Put and Delete as a whole or not at all.
type Index struct {
	mu        sync.RWMutex
	waiting   map[string]Document // by key: put since the last search
	slots     map[string]int32    // by key
	variants  map[string][]int32  // slots of documents with a variant, by ID
	varied    int                 // documents with a variant
	docs      []indexed           // by slot
	lengths   []float32           // by slot, beside docs because scoring reads nothing else
	traits    []trait             // by slot
	vectors   [][]float32         // by slot, nil for a document without
	vectored  int                 // documents with a vector
	free      []int32             // slots without a document
	total     float64             // sum of lengths
	spellings map[string][]int32
	vocab     vocabulary
	sources   map[string]int // documents by namespace
	guessing  map[string]int // those with keywords
	scores    sync.Pool      // of *[]tally, all zero
}

// indexed is a document in the index, with what is needed to take it out again.
type indexed struct {
	key       string
	id, name  string
	spellings []string
	terms     []*term
}

// A trait is what a ranking knows of a document beside its words.
type trait struct {
	namespace string
	keywords  bool    // it has some
	names     float32 // different words of the name
	factor    float32 // factor for what it may do
}

// A posting says how a term occurs in one document.
type posting struct {
	slot   int32
	weight float32
	fields fieldSet
}

func bySlot(p posting, slot int32) int { return cmp.Compare(p.slot, slot) }

// Put adds documents, replacing those with the same key. Of documents with the
// same key in one call the last one stays. The next search takes them in, in tens of
// microseconds a document, so that a program that never searches does not pay for it.
func (ix *Index) Put(docs ...Document) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.waiting == nil {
		ix.waiting = make(map[string]Document)
	}
	for _, d := range docs {
		ix.waiting[d.key()] = d
	}
}

// indexWaiting takes in the documents that wait. The caller holds the lock.
func (ix *Index) indexWaiting() {
	if ix.slots == nil {
		ix.slots = make(map[string]int32)
		ix.spellings = make(map[string][]int32)
		ix.variants = make(map[string][]int32)
		ix.sources = make(map[string]int)
		ix.guessing = make(map[string]int)
	}
	for _, key := range slices.Sorted(maps.Keys(ix.waiting)) {
		ix.remove(key)
		ix.insert(ix.waiting[key], analyse(ix.waiting[key]))
	}
	ix.waiting = nil
}

// lockForSearch takes the lock for reading, once no document waits.
func (ix *Index) lockForSearch() {
	ix.mu.RLock()
	for len(ix.waiting) > 0 {
		ix.mu.RUnlock()
		ix.mu.Lock()
		ix.indexWaiting()
		ix.mu.Unlock()
		ix.mu.RLock()
	}
}

// Delete removes the documents with the given keys: an ID, and with a variant @ and that.
// Unknown keys are ignored.
func (ix *Index) Delete(keys ...string) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for _, key := range keys {
		delete(ix.waiting, key)
		ix.remove(key)
	}
}

// Len returns the number of documents without those that have a variant.
func (ix *Index) Len() int {
	ix.lockForSearch()
	defer ix.mu.RUnlock()
	return len(ix.slots) - ix.varied
}

func (ix *Index) insert(d Document, b *bag) {
	slot := ix.takeSlot()
	entry := indexed{key: d.key(), id: d.ID, name: d.Name, spellings: d.spellings(), terms: make([]*term, 0, len(b.terms))}
	for text, o := range b.terms {
		t := ix.vocab.intern(text)
		at, _ := slices.BinarySearchFunc(t.postings, slot, bySlot)
		t.postings = slices.Insert(t.postings, at, posting{slot, o.weight, o.fields})
		entry.terms = append(entry.terms, t)
	}
	for _, form := range entry.spellings {
		ix.spellings[form] = append(ix.spellings[form], slot)
	}
	ix.slots[entry.key] = slot
	if d.Variant != "" {
		ix.variants[d.ID] = append(ix.variants[d.ID], slot)
		ix.varied++
	}
	ix.docs[slot] = entry
	ix.lengths[slot] = b.length
	ix.traits[slot] = trait{d.Namespace, len(d.Keywords) > 0, b.names, d.rankFactor()}
	if len(d.Keywords) > 0 {
		ix.guessing[d.Namespace]++
	}
	ix.sources[d.Namespace]++
	ix.total += float64(b.length)
}

func (ix *Index) takeSlot() int32 {
	if last := len(ix.free) - 1; last >= 0 {
		slot := ix.free[last]
		ix.free = ix.free[:last]
		return slot
	}
	ix.docs = append(ix.docs, indexed{})
	ix.lengths = append(ix.lengths, 0)
	ix.traits = append(ix.traits, trait{})
	ix.vectors = append(ix.vectors, nil)
	return int32(len(ix.docs) - 1)
}

func (ix *Index) remove(key string) {
	slot, ok := ix.slots[key]
	if !ok {
		return
	}
	if id := ix.docs[slot].id; id != key {
		ix.varied--
		if ix.variants[id] = slices.DeleteFunc(ix.variants[id], func(s int32) bool { return s == slot }); len(ix.variants[id]) == 0 {
			delete(ix.variants, id)
		}
	}
	for _, t := range ix.docs[slot].terms {
		at, _ := slices.BinarySearchFunc(t.postings, slot, bySlot)
		t.postings = slices.Delete(t.postings, at, at+1)
		if len(t.postings) == 0 {
			ix.vocab.remove(t)
		}
	}
	for _, form := range ix.docs[slot].spellings {
		rest := slices.DeleteFunc(ix.spellings[form], func(s int32) bool { return s == slot })
		if len(rest) == 0 {
			delete(ix.spellings, form)
		} else {
			ix.spellings[form] = rest
		}
	}
	ix.total -= float64(ix.lengths[slot])
	ix.lengths[slot] = 0
	of := ix.traits[slot]
	decrement(ix.sources, of.namespace)
	if of.keywords {
		decrement(ix.guessing, of.namespace)
	}
	ix.traits[slot] = trait{}
	ix.setVector(slot, nil)
	ix.docs[slot] = indexed{}
	ix.free = append(ix.free, slot)
	delete(ix.slots, key)
}

func decrement(counts map[string]int, key string) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}
