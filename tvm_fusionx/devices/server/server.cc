// An RPC server for devices, on nothing but TVM's C runtime API: no Python, no compiler.
//
// It registers at a tracker, and serves one session after the other, each in a forked child with a
// folder of its own: a kernel that crashes or hangs ends its session and nothing else.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "connection.h"
#include "session.h"
#include "tracker.h"

namespace fusionx {

// Of tvm.rpc.base.
constexpr int32_t kMagic = 0xff271;
constexpr int32_t kMismatch = kMagic + 2;

// How often the tracker is asked whether an offer was taken, and how many such periods a client
// gets to connect after that: those of tvm/rpc/server.py.
constexpr int kPeriodMilliseconds = 2000;
constexpr int kPeriodsToConnect = 3;
constexpr int kRetryMilliseconds = 500;

struct Options {
  std::string host = "0.0.0.0";
  int port = 9090;
  int port_end = 9199;
  std::string tracker;
  std::string key = "device";
  std::string custom_addr;
  std::string work_folder;
  double session_limit_seconds = 0;
  bool ends_with_input = false;
  bool has_own_pool = true;
  std::vector<std::string> libraries;
};

constexpr char kUsage[] =
    "fusionx_rpc_server [--tracker=HOST:PORT] [--key=KEY] [--host=ADDRESS] [--port=N]\n"
    "  [--port-end=N] [--custom-addr=ADDRESS] [--work-folder=PATH]\n"
    "  [--session-limit=SECONDS] [--load-library=PATH]... [--end-with-input]\n"
    "  [--pool=fusionx|tvm]\n";

// Reads the command line; the names are those of `python -m tvm.exec.rpc_server`.
bool ReadOptions(int count, char** words, Options* options) {
  for (int index = 1; index < count; ++index) {
    const std::string word = words[index];
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (name == "--tracker") {
      options->tracker = value;
    } else if (name == "--key") {
      options->key = value;
    } else if (name == "--host") {
      options->host = value;
    } else if (name == "--port") {
      options->port = atoi(value.c_str());
    } else if (name == "--port-end") {
      options->port_end = atoi(value.c_str());
    } else if (name == "--custom-addr") {
      options->custom_addr = value;
    } else if (name == "--work-folder") {
      options->work_folder = value;
    } else if (name == "--session-limit") {
      options->session_limit_seconds = atof(value.c_str());
    } else if (word == "--end-with-input") {
      options->ends_with_input = true;
    } else if (word == "--pool=tvm" || word == "--pool=fusionx") {
      options->has_own_pool = value == "fusionx";
    } else if (name == "--load-library") {
      options->libraries.push_back(value);
    } else {
      return false;
    }
  }
  if (options->work_folder.empty()) {
    const char* named = getenv("TMPDIR");
#ifdef __ANDROID__
    const char* usual = "/data/local/tmp";
#else
    const char* usual = "/tmp";
#endif
    options->work_folder = named ? named : usual;
  }
  // The key goes into the tracker's JSON as it is.
  return options->key.find_first_of("\"\\ \t") == std::string::npos && !options->key.empty();
}

// Listens at the first free port of the options' range, and puts it in the place of the first.
Connection Listen(Options* options) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_flags = AI_PASSIVE;
  wanted.ai_socktype = SOCK_STREAM;
  for (int port = options->port; port <= options->port_end; ++port) {
    if (getaddrinfo(options->host.c_str(), std::to_string(port).c_str(), &wanted, &found)) return {};
    Connection listening(socket(found->ai_family, found->ai_socktype, found->ai_protocol));
    int on = 1;
    setsockopt(listening.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const bool bound = !bind(listening.number(), found->ai_addr, found->ai_addrlen) &&
                       !listen(listening.number(), 16);
    freeaddrinfo(found);
    if (bound) {
      options->port = port;
      return listening;
    }
  }
  return {};
}

// Ends this program when its input does: whoever started it and held the other end has ended.
void EndWithInput(const Options& options) {
  pollfd watched{STDIN_FILENO, POLLIN, 0};
  char ignored[64];
  while (options.ends_with_input && poll(&watched, 1, 0) > 0) {
    if (read(STDIN_FILENO, ignored, sizeof ignored) <= 0) exit(0);
  }
}

// Answers whoever connects; true for a client that knows the key, with its session's timeout.
bool ShakeHands(Connection* client, const std::string& key, const std::string& match_key,
                double* timeout_seconds) {
  client->SetTimeout(kHandshakeSeconds);
  int32_t magic = 0;
  std::string sent;
  if (!client->ReceiveNumber(&magic) || magic != kMagic || !client->ReceiveText(&sent)) {
    return false;
  }
  if (sent.substr(0, sent.find(' ')) != "client:" + match_key) {
    client->SendNumber(kMismatch);
    fprintf(stderr, "refused: a client with another key\n");
    return false;
  }
  const char option[] = "-timeout=";
  const size_t at = sent.find(option);
  *timeout_seconds = at == std::string::npos ? 0 : atof(sent.c_str() + at + strlen(option));
  if (!client->SendNumber(kMagic) || !client->SendText("server:" + key)) return false;
  client->SetTimeout(0);
  client->SendAtOnce();
  return true;
}

// Waits for a client; a closed connection when the tracker is lost.
Connection NextClient(const Options& options, const Connection& listening, Tracker* tracker,
                      double* timeout_seconds) {
  int periods_taken = 0;
  for (;;) {
    pollfd watched{listening.number(), POLLIN, 0};
    const bool looks_up = tracker || options.ends_with_input;
    const int ready = poll(&watched, 1, looks_up ? kPeriodMilliseconds : -1);
    EndWithInput(options);
    if (ready < 0 || (ready == 0 && !tracker)) continue;
    if (ready == 0) {
      bool taken = false;
      if (!tracker->Check(&taken)) return {};
      periods_taken = taken ? periods_taken + 1 : 0;
      // Whoever took the offer did not come for it.
      if (periods_taken > kPeriodsToConnect && !tracker->Offer()) return {};
      if (periods_taken > kPeriodsToConnect) periods_taken = 0;
      continue;
    }
    Connection client(accept(listening.number(), nullptr, nullptr));
    const std::string& match_key = tracker ? tracker->match_key() : options.key;
    if (client.IsOpen() && ShakeHands(&client, options.key, match_key, timeout_seconds)) {
      return client;
    }
  }
}

int Run(int count, char** words) {
  Options options;
  if (!ReadOptions(count, words, &options)) {
    fputs(kUsage, stderr);
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  if (!RegisterFunctions()) {
    fprintf(stderr, "TVM's runtime: %s\n", TVMGetLastError());
    return 2;
  }
  Connection listening = Listen(&options);
  if (!listening.IsOpen()) {
    fprintf(stderr, "no free port from %d to %d\n", options.port, options.port_end);
    return 2;
  }
  std::unique_ptr<Tracker> tracker;
  if (!options.tracker.empty()) {
    const size_t colon = options.tracker.rfind(':');
    tracker = std::make_unique<Tracker>(options.tracker.substr(0, colon),
                                        atoi(options.tracker.c_str() + colon + 1), options.key,
                                        options.custom_addr, options.port);
  }
  fprintf(stderr, "listening at %s:%d, key %s\n", options.host.c_str(), options.port,
          options.key.c_str());
  int said = -1;
  for (;;) {
    if (tracker) {
      const bool known = tracker->Connect() && tracker->Offer();
      if (known != said) {
        fprintf(stderr, "tracker %s: %s\n", options.tracker.c_str(),
                known ? "registered" : "not reached, trying again");
        said = known;
      }
      if (!known) {
        tracker->Disconnect();
        EndWithInput(options);
        usleep(kRetryMilliseconds * 1000);
        continue;
      }
    }
    double timeout = 0;
    Connection client = NextClient(options, listening, tracker.get(), &timeout);
    if (!client.IsOpen()) {
      tracker->Disconnect();
      continue;
    }
    const double limit = options.session_limit_seconds;
    if (limit > 0 && (timeout <= 0 || timeout > limit)) timeout = limit;
    std::vector<int> others = {listening.number()};
    if (tracker) others.push_back(tracker->number());
    ServeSession(client, others, options.work_folder, timeout, options.libraries,
                 options.has_own_pool);
    client.Finish();
  }
}

}  // namespace fusionx

int main(int count, char** words) { return fusionx::Run(count, words); }
