// Sends messages over a torus of SimGrid, all at once, and tells when each has arrived.
// Arguments: platform file, then SimGrid's options. Input: a message a line, "from to bytes",
// hosts by their numbers. Output: seconds of each message, in order.
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace s4u = simgrid::s4u;

struct Message {
  unsigned long from, to;
  double bytes;
};

int main(int argc, char** argv)
{
  s4u::Engine engine(&argc, argv);
  engine.load_platform(argv[1]);
  std::vector<Message> messages;
  for (Message m; std::cin >> m.from >> m.to >> m.bytes;)
    messages.push_back(m);
  std::vector<double> end(messages.size());
  auto host = [](unsigned long number) { return s4u::Host::by_name("node-" + std::to_string(number)); };
  s4u::Actor::create("sender", host(0), [&] {
    std::vector<s4u::CommPtr> sent;
    for (size_t i = 0; i < messages.size(); i++) {
      auto comm = s4u::Comm::sendto_init(host(messages[i].from), host(messages[i].to));
      comm->set_payload_size(messages[i].bytes);
      comm->start();
      sent.push_back(comm);
    }
    for (size_t i = 0; i < sent.size(); i++) {
      sent[i]->wait();
      end[i] = sent[i]->get_finish_time();
    }
  });
  engine.run();
  for (double time : end)
    std::printf("%.17g\n", time);
}
