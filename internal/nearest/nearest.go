// Package nearest finds the most similar name for a misspelled one.
package nearest

import (
	"strings"
	"unicode"

	"github.com/toolroom/toolroom"
)

// Of returns the candidate most similar to name; ok is false if none is similar. It ignores
// case and separators, so that userId matches user_id, and permits about one other typing error
// per three characters.
func Of(name string, candidates []string) (meant string, ok bool) {
	const longest, most = 64, 1000 // bounds the work: distance is quadratic
	if len(name) > longest || len(candidates) > most {
		return "", false
	}
	plain := plainName(name)
	best, bestDistance := "", len(plain)/3+1
	for _, candidate := range candidates {
		if len(candidate) > longest || candidate == name {
			continue
		}
		other := plainName(candidate)
		if len(plain) < 2 || len(other) < 2 { // any two letters are similar
			if string(plain) != string(other) {
				continue
			}
		}
		d := distance(plain, other)
		if d < bestDistance || d == bestDistance && best != "" && candidate < best {
			best, bestDistance = candidate, d
		}
	}
	return best, best != ""
}

// IsTypo reports whether two names differ by two swapped letters, or by one letter that is
// missing, added or wrong.
func IsTypo(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	at := 0
	for at < len(a) && a[at] == b[at] {
		at++
	}
	switch {
	case len(b)-len(a) == 1:
		return a[at:] == b[at+1:]
	case len(a) != len(b) || at == len(a):
		return false
	case a[at+1:] == b[at+1:]:
		return true
	default:
		return at+1 < len(a) && a[at] == b[at+1] && a[at+1] == b[at] && a[at+2:] == b[at+2:]
	}
}

func plainName(name string) []rune {
	return []rune(strings.Map(func(r rune) rune {
		if strings.ContainsRune("_-. ", r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name))
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment).
func distance(a, b []rune) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// leastID is the minimum number of characters of a shortened id, without its kind.
const leastID = 4

// ID returns the one of ids that equals typed or begins with it. typed may omit the kind
// (call_, apr_, …). If no id matches, ID returns typed, so that the caller reports it as
// unknown. If several match, it returns an error with code invalid_id.
func ID(typed string, ids []string) (string, error) {
	var found []string
	for _, id := range ids {
		if id == typed {
			return id, nil
		}
		_, rest, _ := strings.Cut(id, "_")
		if rest == "" {
			rest = id
		}
		_, short, ok := strings.Cut(typed, "_")
		if !ok {
			short = typed
		}
		if len(short) >= leastID && (strings.HasPrefix(id, typed) || strings.HasPrefix(rest, typed)) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return typed, nil
	case 1:
		return found[0], nil
	}
	return "", toolroom.Errorf(toolroom.CodeInvalidID, "%q is the beginning of %d ids", typed, len(found)).
		WithHint("type more of one: %s", strings.Join(found[:min(len(found), 5)], ", "))
}
