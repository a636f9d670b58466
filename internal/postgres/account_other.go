//go:build !linux

package postgres

import "errors"

func namespaced(account) (account, error) {
	return account{}, errors.New("this system has none")
}
