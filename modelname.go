package toolroom

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
)

// MaxModelName is the length of the longest tool name that every model API accepts
// (^[a-zA-Z0-9_-]{1,64}$).
const MaxModelName = 64

// hashTag is the length of the hash suffix. 10 base32 characters are 50 bits, so among a
// million tools the chance of a collision is about 1 in 2,000.
const hashTag = 10

// ModelName returns the name of a tool for model APIs: namespace__name, with "__" for each
// dot of the name, if that is unambiguous and short enough, else a readable prefix and a hash
// of the id. The name
// depends on the id alone, so it never changes when another tool is added. It does not
// contain the version.
//
// [ReadModelName] parses the unambiguous form. The catalog maps hashed names back to ids;
// [IsHashedModelName] distinguishes the two.
func ModelName(id ID) string {
	plain := id.Namespace + "__" + strings.ReplaceAll(id.Name, ".", "__")
	if back, ok := ReadModelName(plain); ok && back == id.Unversioned() {
		return plain
	}
	sum := sha256.Sum256([]byte(id.Unversioned().String()))
	tag := "_h" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:hashTag]
	clean := strings.ReplaceAll(id.Namespace+"__"+id.Name, ".", "_")
	if len(clean) > MaxModelName-len(tag) {
		clean = clean[:MaxModelName-len(tag)]
	}
	return clean + tag
}

// ReadModelName returns the id of a name that ModelName made without a hash. ok is false
// for every other string.
func ReadModelName(name string) (id ID, ok bool) {
	if len(name) > MaxModelName || strings.Contains(name, ".") || IsHashedModelName(name) {
		return ID{}, false
	}
	namespace, rest, found := strings.Cut(name, "__")
	parts := strings.Split(rest, "__")
	// An underscore next to "__" would be ambiguous, and so would a "__" of the name itself.
	if !found || slices.ContainsFunc(parts, func(part string) bool { return part == "" || part[0] == '_' }) {
		return ID{}, false
	}
	id = ID{Namespace: namespace, Name: strings.Join(parts, ".")}
	return id, id.Validate() == nil
}

// IsHashedModelName reports whether name has the form of a hashed name.
func IsHashedModelName(name string) bool {
	at := len(name) - hashTag - len("_h")
	if at < 1 || name[at:at+2] != "_h" {
		return false
	}
	for _, c := range name[at+2:] {
		if !('a' <= c && c <= 'z' || '2' <= c && c <= '7') {
			return false
		}
	}
	return true
}

// IsModelName reports whether every model API accepts name as a tool name.
func IsModelName(name string) bool {
	for _, c := range name {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return name != "" && len(name) <= MaxModelName
}
