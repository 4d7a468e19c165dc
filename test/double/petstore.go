package double

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// PetstoreDocument describes [Petstore] in OpenAPI 3.0, as YAML. The service is at /v1.
//
//go:embed petstore.yaml
var PetstoreDocument []byte

// Credentials that a petstore takes: the API key for all operations, the
// bearer token to remove pets.
const (
	PetstoreKey   = "petstore-key"
	PetstoreAdmin = "petstore-admin"
)

// Pet is what a petstore keeps.
type Pet struct {
	ID      int64    `json:"id"`
	Name    string   `json:"name"`
	Species string   `json:"species"`
	Tags    []string `json:"tags,omitempty"`
	Weight  *float64 `json:"weight,omitempty"`
	Mother  *Pet     `json:"mother,omitempty"`
}

// Petstore is a service with an OpenAPI document, which it serves at /openapi.yaml. It
// starts with three pets, of which the first has an id beyond 2^53.
type Petstore struct {
	mux     *http.ServeMux
	waiting atomic.Int64

	mu     sync.Mutex
	pets   []*Pet
	photos map[int64][]byte
	byKey  map[string]*Pet
	nextID int64
}

// FirstID is the id of the first pet, which a float64 cannot hold.
const FirstID = 9007199254740993

// NewPetstore returns a service in memory.
func NewPetstore() *Petstore {
	s := &Petstore{mux: http.NewServeMux(), photos: map[int64][]byte{}, byKey: map[string]*Pet{}, nextID: 100}
	s.pets = []*Pet{
		{ID: FirstID, Name: "Tom", Species: "cat", Tags: []string{"grey", "old"}},
		{ID: 2, Name: "Rex", Species: "dog", Tags: []string{"old"}},
		{ID: 3, Name: "Wanda", Species: "fish"},
	}
	s.mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(PetstoreDocument)
	})
	s.mux.HandleFunc("GET /v1/pets", s.withKey(s.list))
	s.mux.HandleFunc("POST /v1/pets", s.withKey(s.create))
	s.mux.HandleFunc("GET /v1/pets/{id}", s.withKey(s.withPet(func(w http.ResponseWriter, _ *http.Request, pet *Pet) {
		answer(w, http.StatusOK, pet)
	})))
	s.mux.HandleFunc("PUT /v1/pets/{id}", s.withKey(s.withPet(s.replace)))
	s.mux.HandleFunc("DELETE /v1/pets/{id}", s.withPet(s.remove))
	s.mux.HandleFunc("POST /v1/pets/{id}/photo", s.withKey(s.withPet(s.setPhoto)))
	s.mux.HandleFunc("GET /v1/pets/{id}/photo", s.withKey(s.withPet(func(w http.ResponseWriter, _ *http.Request, pet *Pet) {
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(s.photos[pet.ID])
	})))
	s.mux.HandleFunc("GET /v1/wait", func(_ http.ResponseWriter, r *http.Request) {
		s.waiting.Add(1)
		defer s.waiting.Add(-1)
		<-r.Context().Done()
	})
	return s
}

// Waiting is how many requests of the operation wait are held now.
func (s *Petstore) Waiting() int { return int(s.waiting.Load()) }

// ServeHTTP serves one request at a time, except those that wait.
func (s *Petstore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/wait" {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Petstore) withKey(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != PetstoreKey {
			problem(w, http.StatusUnauthorized, "the header X-Api-Key is missing or wrong")
			return
		}
		next(w, r)
	}
}

func (s *Petstore) withPet(next func(http.ResponseWriter, *http.Request, *Pet)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		i := slices.IndexFunc(s.pets, func(p *Pet) bool { return strconv.FormatInt(p.ID, 10) == id })
		if i < 0 {
			problem(w, http.StatusNotFound, "there is no pet "+id)
			return
		}
		next(w, r, s.pets[i])
	}
}

func (s *Petstore) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, start := 20, 0
	if text := query.Get("limit"); text != "" {
		limit, _ = strconv.Atoi(text)
	}
	if text := query.Get("cursor"); text != "" {
		start, _ = strconv.Atoi(text)
	}
	if limit < 1 || start < 0 {
		problem(w, http.StatusBadRequest, "limit or cursor is wrong")
		return
	}
	found := []*Pet{}
	for _, pet := range s.pets {
		species := query.Get("filter[species]")
		if (species == "" || pet.Species == species) && hasTags(pet, query.Get("tag")) {
			found = append(found, pet)
		}
	}
	start = min(start, len(found))
	end := min(start+limit, len(found))
	page := map[string]any{"pets": found[start:end], "next_cursor": nil}
	if end < len(found) {
		page["next_cursor"] = strconv.Itoa(end)
		w.Header().Set("Link", fmt.Sprintf(`</v1/pets?cursor=%d&limit=%d>; rel="next"`, end, limit))
	}
	answer(w, http.StatusOK, page)
}

func hasTags(pet *Pet, tags string) bool {
	for _, tag := range strings.Split(tags, ",") {
		if tag != "" && !slices.Contains(pet.Tags, tag) {
			return false
		}
	}
	return true
}

func (s *Petstore) create(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if pet, known := s.byKey[key]; known {
		answer(w, http.StatusCreated, pet)
		return
	}
	pet, err := readPet(r)
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	pet.ID = s.nextID
	s.nextID++
	s.pets = append(s.pets, pet)
	if key != "" {
		s.byKey[key] = pet
	}
	answer(w, http.StatusCreated, pet)
}

func (s *Petstore) replace(w http.ResponseWriter, r *http.Request, pet *Pet) {
	replacement, err := readPet(r)
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	replacement.ID = pet.ID
	*pet = *replacement
	answer(w, http.StatusOK, pet)
}

func (s *Petstore) remove(w http.ResponseWriter, r *http.Request, pet *Pet) {
	if r.Header.Get("Authorization") != "Bearer "+PetstoreAdmin {
		problem(w, http.StatusForbidden, "only administrators remove pets")
		return
	}
	s.pets = slices.DeleteFunc(s.pets, func(p *Pet) bool { return p == pet })
	w.WriteHeader(http.StatusNoContent)
}

func (s *Petstore) setPhoto(w http.ResponseWriter, r *http.Request, pet *Pet) {
	file, _, err := r.FormFile("image")
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	defer file.Close()
	photo, err := io.ReadAll(file)
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	s.photos[pet.ID] = photo
	answer(w, http.StatusOK, map[string]any{"bytes": len(photo), "caption": r.FormValue("caption")})
}

func readPet(r *http.Request) (*Pet, error) {
	var pet Pet
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&pet); err != nil {
		return nil, err
	}
	if pet.Name == "" || pet.Species == "" {
		return nil, fmt.Errorf("name and species are needed")
	}
	return &pet, nil
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func problem(w http.ResponseWriter, status int, title string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "title": title})
}
