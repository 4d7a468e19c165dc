package approval

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/toolroom/toolroom"
)

// Digest identifies one exact call. It returns the SHA-256, in hex, over the tool
// id and version, the canonical arguments, anything else that the call sends to
// the tool (nil for nothing), and the whole identity. The order of groups does
// not matter.
func Digest(tool toolroom.ID, canonicalArgs, more []byte, identity toolroom.Identity) string {
	parts := []string{"toolroom approval 1", tool.String(), string(canonicalArgs)}
	if len(more) > 0 {
		parts = []string{"toolroom approval 1 with more", tool.String(), string(canonicalArgs), string(more)}
	}
	return digest(append(parts, partsOf(identity)...))
}

// CallDigest is [Digest] for a call of a tool in an environment: for what serves there, a
// call in another environment or of another version is another call.
func CallDigest(tool *toolroom.Tool, environment string, canonicalArgs, more []byte, identity toolroom.Identity) string {
	id := tool.ID
	if tool.Release != nil && id.Version == "" {
		id.Version = toolroom.Version(strconv.Itoa(tool.Release.Version))
	}
	if e := Environment(environment, identity); e != "" {
		identity.Environment = e
	}
	return Digest(id, canonicalArgs, more, identity)
}

// prod is the environment of a call that names none.
const prod = "prod"

// Environment returns the environment of a call that names one, or does not, as the field of
// [toolroom.Approval] has it.
func Environment(named string, who toolroom.Identity) string {
	if e := cmp.Or(named, who.Environment); e != prod {
		return e
	}
	return ""
}

// Caller returns the SHA-256, in hex, over the whole identity of a caller.
func Caller(identity toolroom.Identity) string {
	return digest(append([]string{"toolroom caller 1"}, partsOf(identity)...))
}

func partsOf(identity toolroom.Identity) []string {
	parts := []string{identity.Subject, identity.Agent, identity.Provider, identity.Skill}
	parts = append(parts, slices.Sorted(slices.Values(identity.Groups))...)
	if identity.Scopes != nil {
		// An empty text does not follow another in a sorted list.
		parts = append(append(parts, "scopes", ""), slices.Sorted(slices.Values(identity.Scopes))...)
	}
	if identity.Set != "" {
		parts = append(parts, "set", "", identity.Set)
	}
	if identity.Environment != "" {
		parts = append(parts, "environment", "", identity.Environment)
	}
	return parts
}

func digest(parts []string) string {
	h := sha256.New()
	var size [8]byte
	for _, part := range parts {
		// The length keeps "ab","c" and "a","bc" apart.
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}
