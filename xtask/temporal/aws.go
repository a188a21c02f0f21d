package client

import (
	"errors"
	"net/http"
)

// NewAwsHttpClient signs nothing: no test keeps its visibility records in a cloud.
func NewAwsHttpClient(config ESAWSRequestSigningConfig) (*http.Client, error) {
	if !config.Enabled {
		return nil, nil
	}
	return nil, errors.New("this server was built for tests, without signing for AWS")
}
