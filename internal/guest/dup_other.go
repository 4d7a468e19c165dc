//go:build !linux

package guest

import "errors"

func dup(int, int) error {
	return errors.New("guests run on Linux, which is what every sandbox gives them")
}
