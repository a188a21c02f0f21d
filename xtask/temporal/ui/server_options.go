// Package server_options carries what the command line tool says to the web pages.
package server_options

import "github.com/temporalio/ui-server/v2/server/config"

type ServerOption struct{}

func WithConfigProvider(*config.Config) ServerOption {
	return ServerOption{}
}
