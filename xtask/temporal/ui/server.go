// Package server stands in for the web pages, which tests never open.
package server

import (
	"errors"

	"github.com/temporalio/ui-server/v2/server/server_options"
)

type Server struct{}

func NewServer(...server_options.ServerOption) *Server {
	return &Server{}
}

func (*Server) Start() error {
	return errors.New("this server was built for tests, without its web pages: use --headless")
}

func (*Server) Stop() {}
